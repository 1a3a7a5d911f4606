"""Word lists: small words, negations, opposites, months, numbers and units, in the languages that the floors read.

All words are folded: lower case, no accents. The lists are short on purpose. A missing word makes two texts look less alike,
which lets one more through; it never rejects a different fact.
"""

from typing import Final


def word_set(text: str) -> frozenset[str]:
    """Splits a line of words into a set."""
    return frozenset(text.split())


# Words that carry no fact by themselves.
STOPS: Final = word_set(
    "a an the this that these those it its of to in on at by for from with as and or is are was were be been being am "
    "has have had do does did will would shall can could may might there here he she they we you i his her their our "
    "your my me him them us which who whom whose what so such per into onto "
    "der die das den dem des ein eine einen einem einer eines und oder ist sind war waren wird werden von zu zum zur im "
    "in am an auf aus bei mit fur als es sie er wir ihr "
    "le la les l d un une des du de et ou est sont etait au aux en dans par pour sur avec ce cette ces il elle on qui que "
    "el los las lo una unos unas y o es son fue al del por para con se su sus "
    "il gli uno e i di da nel nella dei delle della sono era "
    "os um uma ao aos na nos nas com sao foi het een van op te zijn % € $ £"
)

# Words that repeat or introduce a statement without changing it.
FILLERS: Final = word_set(
    "note notes noted noting please fyi btw reminder remember remembered recall recalled recalling memory memories "
    "according known know fact basically actually really just simply also well indeed again still currently now today "
    "previously earlier said says say stated states state mentioned mentions stored retrieved context based information "
    "info important summary summarise summarize tell told confirm confirmed confirms learned learnt record records "
    "hinweis notiz merke laut erinnerung bekanntlich ubrigens wie gesagt also ja eben "
    "rappel selon noter memoire donc bien aussi nota recordar segun memoria tambien ricorda secondo lembrete conforme"
)

# Words that negate or limit a statement. Texts whose qualifiers differ say different things.
NEGATIONS: Final = word_set(
    "not no never none nobody nothing neither nor cannot nicht kein keine keinen keinem keiner keines nie niemals "
    "pas jamais aucun aucune ne non nunca ningun ninguna ningunos ninguno jamas nem nao mai nessun nessuna niet "
    "geen nooit не нет ни никогда 不 没 無 无 未 非 勿 لا ليس لم لن غير नहीं "
)
QUALIFIERS: Final = NEGATIONS | word_set(
    "without ohne sans sin sem senza zonder без बिना only except unless until before after minimum maximum least most over under above below more less fewer up down "
    "than almost partly half former next last first second nur ausser bis vor nach mindestens hochstens uber unter mehr "
    "weniger fast seulement sauf jusqu avant apres moins plus sous solo salvo hasta antes despues menos mas"
)

# Pairs of opposites. Each word is looked up in both directions.
_OPPOSITES: Final = (
    "allowed forbidden, allowed prohibited, permitted prohibited, permitted forbidden, enabled disabled, enable disable, "
    "required optional, mandatory optional, mandatory voluntary, open closed, true false, public private, free paid, "
    "legal illegal, include exclude, included excluded, accept reject, accepted rejected, increase decrease, "
    "increases decreases, refundable nonrefundable, valid invalid, safe unsafe, secure insecure, possible impossible, "
    "internal external, encrypted unencrypted, synchronous asynchronous, mutable immutable, active inactive, "
    "available unavailable, online offline, always never, before after, above below, maximum minimum, "
    "over under, more less, more fewer, first last, succeeds fails, passes fails, won lost, hot cold, left right, "
    "north south, east west, men women, male female, manual automatic, temporary permanent, domestic foreign, "
    "erlaubt verboten, aktiv inaktiv, offen geschlossen, kostenlos kostenpflichtig, autorise interdit, ouvert ferme, "
    "gratuit payant, permitido prohibido, abierto cerrado"
)
OPPOSITES: Final[dict[str, frozenset[str]]] = {
    word: frozenset(
        other
        for pair in _OPPOSITES.split(",")
        if word in pair.split()
        for other in pair.split()
        if other != word
    )
    for word in word_set(_OPPOSITES.replace(",", " "))
}


def _numbered(*lines: str, start: int = 1) -> dict[str, int]:
    return {word: number for line in lines for number, word in enumerate(line.split(), start)}


# Sets of which a sentence names one member.
MONTHS: Final = _numbered(
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "januar februar marz april mai juni juli august september oktober november dezember",
    "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
)
WEEKDAYS: Final = _numbered(
    "monday tuesday wednesday thursday friday saturday sunday",
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lunes martes miercoles jueves viernes sabado domingo",
)
# Months that are ordinary words as well.
AMBIGUOUS_MONTHS: Final = word_set("may march mar mars mai")

_TO_TWENTY: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
NUMBER_WORDS: Final[dict[str, str]] = {
    word: str(number)
    for word, number in {
        **_numbered(_TO_TWENTY, start=0),
        **{
            word: 10 * tens
            for word, tens in _numbered("thirty forty fifty sixty seventy eighty ninety", start=3).items()
        },
        **_numbered("zwei drei vier funf sechs sieben acht neun zehn", start=2),
        **_numbered("deux trois quatre cinq six sept huit neuf dix", start=2),
        **_numbered("dos tres cuatro cinco seis siete ocho nueve diez", start=2),
        **_numbered("vierzehn", "quatorze", "catorce", start=14),
        **_numbered("hundred", "hundert", "cent", "cien", start=100),
        **_numbered("thousand", "tausend", "mille", "mil", start=1000),
        **_numbered("million", start=1_000_000),
    }.items()
}

# Every word to which ``TextReading`` gives a meaning of its own.
SMALL_WORDS: Final = STOPS | FILLERS | QUALIFIERS | NUMBER_WORDS.keys()

# The names of each unit, and how many of the smallest one it holds: two weeks are fourteen days.
_UNITS: Final = (
    ("second", 1, "second seconds sec secs sekunde sekunden seconde secondes segundo segundos"),
    ("second", 60, "minute minutes min mins minuten minuto minutos"),
    ("second", 3_600, "hour hours hr hrs stunde stunden heure heures hora horas"),
    ("second", 86_400, "day days tag tage tagen jour jours dia dias 天 日"),
    ("second", 604_800, "week weeks woche wochen semaine semaines semana semanas 周"),
    ("month", 1, "month months monat monate monaten mois mes meses"),
    ("month", 12, "year years jahr jahre jahren ans annee annees ano anos 年"),
    ("percent", 1, "percent percentage prozent pourcent % pct"),
    ("euro", 1, "euro euros eur €"),
    ("dollar", 1, "dollar dollars usd $"),
    ("pound", 1, "pound pounds gbp £"),
)
UNITS: Final = {name: (unit, factor) for unit, factor, names in _UNITS for name in names.split()}
