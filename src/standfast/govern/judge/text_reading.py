"""Text reading: the forms of a text that floors compare and search.

A ``TextReading`` gives the words of a text, the words that carry its fact, its numbers, quantities and
qualifiers. Each form is a pure function of the text, computed at most once, in time linear in the text.

Words are split at spaces and punctuation. Chinese, Japanese kana and Thai are read character by character,
because they do not put spaces between words. Numbers have one notation: ``1,000`` is ``1000``, ``15.01.2026``
and ``15 January 2026`` are ``2026-01-15``, and two weeks are 14 days.

``fold`` makes one form of texts that a reader takes for the same: it removes differences of case, width,
accents, lookalike letters and invisible characters. It is for comparing and matching, never for storing.
``as_of_unicode_14`` makes texts read alike on every Python: 3.11 knows Unicode 14.0, later versions know more
characters and would classify, case-fold or print them differently, so each later character is replaced by its
number. A test compares the table with the newest Unicode data.

The lists of small words, negations, opposites, months, numbers and units are folded: lower case, no accents.
They are short on purpose. A missing word makes two texts look less alike, which lets one more through; it
never rejects a different fact.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

from standfast.records.canon import fingerprint

# All code points assigned by versions 15.0 to 18.0.
_LATER_RANGES: Final = (
    "558 58B-58C 5C8-5C9 88F 897 B53-B54 C5C CDC CF3 ECE 1ACF-1AF0 1B4E-1B4F 1B7F 1C89-1C8A 208F 209D-209F"
    " 20C1-20C4 2427-2429 2B96 2E60-2E63 2FFC-2FFF 31E4-31E5 31EF A7CB-A7CF A7D2 A7D4 A7DA-A7DD A7E2 A7F1"
    " AB6C-AB6D FBC3-FBD2 FD90-FD91 FDC8-FDCE 105C0-105F3 107BB-107BF 10940-10959 10D40-10D65 10D69-10D85"
    " 10D8E-10D8F 10EC2-10EC7 10EC9-10EEE 10EF0-10EFF 1123F-11241 11380-11389 1138B 1138E 11390-113B5"
    " 113B7-113C0 113C2 113C5 113C7-113CA 113CC-113D5 113D7-113D8 113E1-113E2 116D0-116E3 11B00-11B0A"
    " 11B60-11B67 11BC0-11BE1 11BF0-11BF9 11DB0-11DDB 11DE0-11DE9 11DF0-11DF1 11F00-11F10 11F12-11F3A"
    " 11F3E-11F5A 1246F 12475-1247F 12550-12686 1342F 13439-13455 13460-143FA 16100-16139 16D40-16D79"
    " 16EA0-16EB8 16EBB-16ED3 16FF2-16FF6 187F8-187FF 18CD6-18CDA 18CFF 18D09-18D20 18D80-18DF2 18E00-19191"
    " 191A0-191D2 1B123-1B128 1B132 1B155 1B168 1CC00-1CCFC 1CD00-1CEB3 1CEBA-1CED0 1CED2-1CED4 1CEDD-1CEFD"
    " 1D127-1D128 1D1EB-1D1FF 1D250-1D281 1D2C0-1D2D3 1D6A6 1DB00-1DB1C 1DF1F-1DF81 1DF90-1DF96 1DFCD-1DFFF"
    " 1E030-1E06D 1E08F 1E4D0-1E4F9 1E5D0-1E5FA 1E5FF 1E6C0-1E6DE 1E6E0-1E6F5 1E6FE-1E6FF 1F1AE 1F6D8-1F6D9"
    " 1F6DC 1F774-1F77F 1F7D9-1F7DB 1F7F1-1F7FF 1F8B2-1F8BB 1F8C0-1F8C1 1F8D0-1F8D8 1FA54-1FA57 1FA75-1FA77"
    " 1FA87-1FA8F 1FAAD-1FAAF 1FABB-1FABF 1FAC6 1FAC8 1FACC-1FACF 1FADA-1FADD 1FADF 1FAE8-1FAEB 1FAEF"
    " 1FAF7-1FAFA 1FBCB-1FBEF 1FBFA 2B739-2B73F 2B81E 2CEA2-2CEAD 2EBF0-2EE5D 31350-33479 3D000-3FC3F "
)


def _char_class(code_points: str) -> str:
    first, _, last = code_points.partition("-")
    return f"\\U{int(first, 16):08x}-\\U{int(last or first, 16):08x}"


LATER: Final = re.compile(f"[{''.join(map(_char_class, _LATER_RANGES.split()))}]")
# Combining marks, which ``fold`` removes. Later marks in these blocks are removed as well.
MARKS: Final = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_MARK: Final = re.compile(f"[{MARKS}]")


def as_of_unicode_14(text: str) -> str:
    """Replaces each character that is newer than Unicode 14.0 by its number, and drops newer combining marks."""
    if text.isascii() or not LATER.search(text):
        return text
    return LATER.sub(lambda later: "" if _MARK.match(later[0]) else f" \u25a1{ord(later[0]):x} ", text)


# Letters of other alphabets, after case folding, that readers take for Latin ones.
_LOOKALIKES: Final = {
    "Cyrillic": ("авсԁеѕіјкӏмнорԛгтуԝхһьԍќү", "abcdesijklmhopqrtywxhbgky"),
    "Greek": ("αβγεηικνορτυχωϲϳ", "abyenikvoptuxwcj"),
    "Armenian": ("օոսհցզ", "onuhgq"),
    "Latin": ("ıɑɡɩʀʏɴɪøłđħŧƨʟᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢ", "iagirynioldhtslacdejkmoptuvwz"),
}
_CONFUSABLE: Final = {
    ord(other): latin
    for others, latins in _LOOKALIKES.values()
    for other, latin in zip(others, latins, strict=True)
}
_CONFUSABLE_CHARS: Final = "".join(sorted(map(chr, _CONFUSABLE)))

# Characters that take no room on a screen, and blanks that are not spaces.
_UNSEEN: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_INVISIBLE: Final = re.compile(f"[{_UNSEEN}]+")
# Points and accents of alphabets that can be read without them. Vowel signs of Indic scripts are letters.
_MARKS_AND_INVISIBLE: Final = re.compile(f"[{MARKS}\u0591-\u05c7\u064b-\u065f\u0670{_UNSEEN}]+")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_LOOKALIKE: Final = re.compile(f"[{_CONFUSABLE_CHARS}]")
_LATIN_LOOKING_WORD: Final = re.compile(f"[a-z0-9{_CONFUSABLE_CHARS}]+")
_LATIN_LETTER: Final = re.compile("[a-z]")
_CONFUSABLE_BOTH: Final = _CONFUSABLE | {
    ord(capital): latin.upper()
    for other, latin in _CONFUSABLE.items()
    if len(capital := chr(other).upper()) == 1 and not capital.isascii()
}
_LOOKALIKE_BOTH: Final = re.compile(f"[{''.join(sorted(map(chr, _CONFUSABLE_BOTH)))}]")
_WORD_CHARS: Final = re.compile(r"\w+")
_ASCII: Final = re.compile("[A-Za-z]")
# A word of lookalike letters only is taken for Latin if at least this share of the letters in the text is
# Latin.
_LATIN_SHARE: Final = 0.5
# Apostrophes, and letters in boxes and circles, which Unicode classifies as symbols.
_PLAIN: Final = str.maketrans("’ʼ＇", "'''") | {
    first + place: chr(ord("a") + place) for first in (0x1F150, 0x1F170, 0x1F1E6) for place in range(26)
}


def fold(text: str) -> str:
    """Folds a text: lower case, compatibility forms resolved, no accents or invisible characters, lookalikes
    as Latin.
    """
    if text.isascii():
        return text.lower()
    plain = _SURROGATES.sub("\ufffd", text).translate(_PLAIN)
    bare = _MARKS_AND_INVISIBLE.sub("", unicodedata.normalize("NFKD", plain)).casefold()
    folded = unicodedata.normalize("NFC", bare)
    return _without_lookalikes(folded) if _LOOKALIKE.search(folded) else folded


def plain(text: str) -> str:
    """Resolves compatibility forms, invisible characters and lookalikes in Latin words, but keeps the case."""
    if text.isascii():
        return text
    bare = unicodedata.normalize("NFKC", _INVISIBLE.sub("", _SURROGATES.sub("\ufffd", text)))
    if not _LOOKALIKE_BOTH.search(bare):
        return bare
    return _WORD_CHARS.sub(
        lambda word: word[0].translate(_CONFUSABLE_BOTH) if _ASCII.search(word[0]) else word[0], bare
    )


def _without_lookalikes(folded: str) -> str:
    """Replaces lookalikes in words that also have Latin letters, and everywhere if the text is mostly Latin."""
    letters = sum(map(str.isalpha, folded))
    mostly_latin = len(_LATIN_LETTER.findall(folded)) >= letters * _LATIN_SHARE

    def latin(word: re.Match[str]) -> str:
        found = word[0]
        return found.translate(_CONFUSABLE) if mostly_latin or _LATIN_LETTER.search(found) else found

    return _LATIN_LOOKING_WORD.sub(latin, folded)


def word_set(text: str) -> frozenset[str]:
    """Splits a line of words into a set."""
    return frozenset(text.split())


# Words that carry no fact by themselves.
STOPS: Final = word_set(
    "a an the this that these those it its of to in on at by for from with as and or is are was were be been"
    " being am has have had do does did will would shall can could may might there here he she they we you i"
    " his her their our your my me him them us which who whom whose what so such per into onto der die das"
    " den dem des ein eine einen einem einer eines und oder ist sind war waren wird werden von zu zum zur im"
    " in am an auf aus bei mit fur als es sie er wir ihr le la les l d un une des du de et ou est sont etait"
    " au aux en dans par pour sur avec ce cette ces il elle on qui que el los las lo una unos unas y o es son"
    " fue al del por para con se su sus il gli uno e i di da nel nella dei delle della sono era os um uma ao"
    " aos na nos nas com sao foi het een van op te zijn % € $ £"
)

# Words that repeat or introduce a statement without changing it.
FILLERS: Final = word_set(
    "note notes noted noting please fyi btw reminder remember remembered recall recalled recalling memory"
    " memories according known know fact basically actually really just simply also well indeed again still"
    " currently now today previously earlier said says say stated states state mentioned mentions stored"
    " retrieved context based information info important summary summarise summarize tell told confirm"
    " confirmed confirms learned learnt record records hinweis notiz merke laut erinnerung bekanntlich"
    " ubrigens wie gesagt also ja eben rappel selon noter memoire donc bien aussi nota recordar segun memoria"
    " tambien ricorda secondo lembrete conforme"
)

# Words that negate or limit a statement. Texts whose qualifiers differ say different things.
NEGATIONS: Final = word_set(
    "not no never none nobody nothing neither nor cannot nicht kein keine keinen keinem keiner keines nie"
    " niemals pas jamais aucun aucune ne non nunca ningun ninguna ningunos ninguno jamas nem nao mai nessun"
    " nessuna niet geen nooit не нет ни никогда 不 没 無 无 未 非 勿 لا ليس لم لن غير नहीं "
)
QUALIFIERS: Final = NEGATIONS | word_set(
    "without ohne sans sin sem senza zonder без बिना only except unless until before after minimum maximum"
    " least most over under above below more less fewer up down than almost partly half former next last"
    " first second nur ausser bis vor nach mindestens hochstens uber unter mehr weniger fast seulement sauf"
    " jusqu avant apres moins plus sous solo salvo hasta antes despues menos mas"
)

# Pairs of opposites. Each word is looked up in both directions.
_OPPOSITES: Final = (
    "allowed forbidden, allowed prohibited, permitted prohibited, permitted forbidden, enabled disabled,"
    " enable disable, required optional, mandatory optional, mandatory voluntary, open closed, true false,"
    " public private, free paid, legal illegal, include exclude, included excluded, accept reject, accepted"
    " rejected, increase decrease, increases decreases, refundable nonrefundable, valid invalid, safe unsafe,"
    " secure insecure, possible impossible, internal external, encrypted unencrypted, synchronous"
    " asynchronous, mutable immutable, active inactive, available unavailable, online offline, always never,"
    " before after, above below, maximum minimum, over under, more less, more fewer, first last, succeeds"
    " fails, passes fails, won lost, hot cold, left right, north south, east west, men women, male female,"
    " manual automatic, temporary permanent, domestic foreign, erlaubt verboten, aktiv inaktiv, offen"
    " geschlossen, kostenlos kostenpflichtig, autorise interdit, ouvert ferme, gratuit payant, permitido"
    " prohibido, abierto cerrado"
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
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen twenty"
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


# How much of a text is read. Floors that guard against something refuse a longer text, so that nothing passes
# unread.
READ_CHARS: Final = 32_768

_UNSPACED: Final = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
# A number with its separators is one word: 18.1, 2026-01-15, 06:30.
_JOINED: Final = re.compile(r"\d[.,:/-]\d")
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)+")
# Vowel signs are letters to a reader, but not to a regular expression.
INDIC: Final = "\u0900-\u0963\u0966-\u0dff"
_LETTER: Final = rf"(?:[^\W_{_UNSPACED}]|[{INDIC}])"
_WORD: Final = re.compile(rf"[{_UNSPACED}]|{_LETTER}+(?:'{_LETTER}+)*|[%$€£]")
# In ASCII, everything but letters, digits and the apostrophe separates words; % and $ are words themselves.
_NO_LETTER: Final = "".join(char for char in map(chr, range(128)) if not char.isalnum() and char not in "'%$")
_APART: Final = str.maketrans(_NO_LETTER, " " * len(_NO_LETTER))
_APOSTROPHES: Final = re.compile("'{2,}")
# The words that are a number, a qualifier or a small word; all others carry the fact.
_MEANING: Final = (
    {word: ("number", figure) for word, figure in NUMBER_WORDS.items()}
    | dict.fromkeys(STOPS | FILLERS, ("nothing", ""))
    | {word: ("qualifier", "not" if word in NEGATIONS else word) for word in QUALIFIERS}
)
_NAME_INSIDE_A_SENTENCE: Final = re.compile(r"(?<=[^\W_] |[,;] )[A-ZÀ-Þ][^\W_]*")
_GROUPED: Final = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*")
_DECIMAL: Final = re.compile(r"\d{1,18}(?:\.\d{1,12})?")
_GERMAN_DATE: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_YEAR: Final = re.compile(r"\d{4}")
_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def stem(word: str) -> str:
    """Removes the ending of an English plural."""
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word


_MEASURES: Final = frozenset(map(stem, (*UNITS, *MONTHS, *WEEKDAYS)))


_V = TypeVar("_V")


class computed_once(Generic[_V]):  # noqa: N801  # It is used as a decorator.
    """``functools.cached_property`` without the lock of Python 3.11, which costs more than most forms of a
    short text.
    """

    def __init__(self, compute: Callable[[Any], _V]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> _V:
        if instance is None:
            return self  # type: ignore[return-value]  # Of the class itself, for documentation.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


class TextReading:
    """The forms of one text. Those that not every text needs are computed on first use.

    Attributes:
        text: The text, as far as it is read.
        is_cut: Whether it goes on.
        folded: The folded text.
        pieces: Every run of letters and digits, folded, in order. A number with separators is several pieces.
    """

    def __init__(self, text: str) -> None:
        self.text = as_of_unicode_14(text[:READ_CHARS])
        self.is_cut = len(text) > READ_CHARS
        self.folded = folded = fold(self.text)
        self.pieces = _ascii_words(folded) if folded.isascii() else _WORD.findall(folded)

    def followed_by(self, text: str) -> "TextReading":
        """Joins another text by a line break. Nothing is read twice."""
        both = TextReading.__new__(TextReading)
        if text:
            other = TextReading(text)
            both.text = f"{self.text}\n{other.text}"
            both.is_cut = self.is_cut or other.is_cut or len(both.text) > READ_CHARS
            both.folded = f"{self.folded}\n{other.folded}"
            both.pieces = self.pieces + other.pieces
            return both
        both.text = f"{self.text}\n"
        both.is_cut = self.is_cut or len(both.text) > READ_CHARS
        both.folded = f"{self.folded}\n"
        both.pieces = self.pieces
        both.vocabulary = self.vocabulary
        return both

    def once(self, compute: Callable[["TextReading"], _V]) -> _V:
        """What a function finds in this text, computed once, however many ask for it."""
        found: dict[object, Any] = self.__dict__.setdefault("_found", {})
        if compute not in found:
            found[compute] = compute(self)
        return found[compute]  # type: ignore[no-any-return]  # It is what ``compute`` returned.

    @computed_once
    def vocabulary(self) -> frozenset[str]:
        """The set of pieces."""
        return frozenset(self.pieces)

    @computed_once
    def words(self) -> tuple[str, ...]:
        """All words and numbers, folded, in order. A number with separators is one word."""
        folded = self.folded
        separator = _JOINED.search(folded)
        if separator is None:
            return tuple(self.pieces)
        split = _ascii_words if folded.isascii() else _WORD.findall
        words: list[str] = []
        end = 0
        while separator is not None:
            start = separator.start()
            while start > end and folded[start - 1].isdecimal():
                start -= 1
            words += split(folded[end:start])
            end = _NUMBER.match(folded, start).end()  # type: ignore[union-attr]  # A separator between digits was found, so there is a number.
            words.append(folded[start:end])
            separator = _JOINED.search(folded, end)
        return tuple(words + split(folded[end:]))

    @computed_once
    def longest_run_chars(self) -> int:
        """The length of the longest stretch without white space."""
        return max(map(len, self.text.split()), default=0)

    @computed_once
    def fingerprint(self) -> str:
        """A hash that ignores case, spacing, punctuation, accents and lookalike letters."""
        return fingerprint(f"content/v1 {' '.join(self.words) or self.folded.strip()}")

    @computed_once
    def carrying(self) -> tuple[str, ...]:
        """The words that carry the fact, in order: stemmed, without small words, numbers in one notation."""
        return self._classify()[0]

    @computed_once
    def numbers(self) -> frozenset[str]:
        """Every number, and every word that contains a digit."""
        return self._classify()[1]

    @computed_once
    def qualifiers(self) -> frozenset[str]:
        """The words that negate or limit the statement. Every negation is ``not``."""
        return self._classify()[2]

    @computed_once
    def content(self) -> frozenset[str]:
        """The set of carrying words."""
        return frozenset(self.carrying)

    def _classify(self) -> tuple[tuple[str, ...], frozenset[str], frozenset[str]]:
        """Computes ``carrying``, ``numbers`` and ``qualifiers``, which come from one look at each word."""
        carrying: list[str] = []
        numbers, qualifiers = set(), set()
        has_date = not self.vocabulary.isdisjoint(MONTHS) and _YEAR.search(self.folded)
        for word in with_dates(self.words) if has_date else self.words:
            meaning = _MEANING.get(word)
            if meaning is not None:
                kind, said = meaning
                if kind == "number":
                    numbers.add(said)
                    carrying.append(said)
                elif kind == "qualifier":
                    qualifiers.add(said)
            elif word.isalpha():
                # ``stem``, inlined because it is needed for nearly every word.
                plural = word[-1] == "s" and len(word) > 3 and word[-2] != "s"
                carrying.append(word[:-1] if plural else word)
            elif "'" in word:
                if word.endswith("n't") or word.startswith("n'"):
                    qualifiers.add("not")
                carrying.extend(stem(part) for part in word.split("'") if len(part) > 2 and part not in STOPS)
            else:
                figure = number(word)
                numbers.add(figure)
                carrying.append(figure)
        found = tuple(carrying), frozenset(numbers), frozenset(qualifiers)
        self.__dict__.update(zip(("carrying", "numbers", "qualifiers"), found, strict=True))
        return found

    @computed_once
    def topic(self) -> frozenset[str]:
        """What the text is about: its carrying words without numbers and units."""
        return self.content - self.numbers - _MEASURES

    @computed_once
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Neighbouring carrying words; the last is followed by the first, so that a moved clause changes
        little.
        """
        carrying = self.carrying
        return frozenset(zip(carrying, carrying[1:] + carrying[:1], strict=True))

    @computed_once
    def names(self) -> frozenset[str]:
        """Words that are capitalised inside a sentence, in the form of ``carrying``."""
        return frozenset(stem(fold(name)) for name in _NAME_INSIDE_A_SENTENCE.findall(self.text))

    @computed_once
    def quantities(self) -> dict[str, frozenset[str]]:
        """The numbers of each unit, in its smallest one: ``{"second": {"1209600"}}`` for 14 days or two
        weeks.
        """
        return quantities_in(self.words)


def _ascii_words(folded: str) -> list[str]:
    """Finds the same words as ``_WORD``, in a third of the time."""
    if "%" in folded or "$" in folded:
        folded = folded.replace("%", " % ").replace("$", " $ ")
    words = folded.translate(_APART).split()
    if "'" in folded:
        return [part for word in words for part in _APOSTROPHES.split(word.strip("'")) if part]
    return words


def quantities_in(words: Sequence[str]) -> dict[str, frozenset[str]]:
    """The numbers of each unit, in its smallest one. Numbers without a unit are listed under ``""``."""
    found: dict[str, set[str]] = {}
    after_date = 0
    for index, word in enumerate(words):
        if index < after_date:
            continue
        if (date := _date_at(words, index)) is not None:
            found.setdefault("date", set()).add(date)
            after_date = index + 3
        elif (figure := NUMBER_WORDS.get(word) or (number(word) if word[0].isdigit() else None)) is not None:
            unit, amount = _measured(words, index, figure)
            found.setdefault(unit, set()).add(amount)
    return {unit: frozenset(amounts) for unit, amounts in found.items()}


def with_dates(words: Sequence[str]) -> list[str]:
    """The words, with each date of three words replaced by one ISO date."""
    dated: list[str] = []
    index = 0
    while index < len(words):
        date = _date_at(words, index)
        dated.append(date or words[index])
        index += 3 if date else 1
    return dated


def number(token: str) -> str:
    """Writes a number in one notation: no grouping, a decimal point, ISO form for a German date."""
    if _GROUPED.fullmatch(token):
        token = token.replace(",", "").replace(".", "")
    elif date := _GERMAN_DATE.fullmatch(token):
        day, month, year = date.groups()
        return f"{year}-{int(month):02}-{int(day):02}"
    elif token.count(",") == 1 and "." not in token:
        token = token.replace(",", ".")
    if _DECIMAL.fullmatch(token):
        whole, _, fraction = token.partition(".")
        return f"{int(whole)}.{fraction}".rstrip("0").rstrip(".") if fraction else str(int(whole))
    return token


def _date_at(words: Sequence[str], index: int) -> str | None:
    """The ISO date that the three words at ``index`` spell, in either order of day and month."""
    if index + 2 >= len(words) or len(words[index + 2]) != 4 or not words[index + 2].isdecimal():
        return None
    first, second = words[index], words[index + 1]
    day, name = (first, second) if second in MONTHS else (second, first)
    if name not in MONTHS or not day.isdecimal() or len(day) > 2:
        return None
    return f"{words[index + 2]}-{MONTHS[name]:02}-{int(day):02}"


def _measured(words: Sequence[str], index: int, figure: str) -> tuple[str, str]:
    """The unit after or before a number, and the amount in the smallest such unit."""
    if _ISO_DATE.fullmatch(figure):
        return "date", figure
    after = words[index + 1] if index + 1 < len(words) else ""
    before = words[index - 1] if index else ""
    for neighbour in (after, before):
        if neighbour in UNITS:
            unit, factor = UNITS[neighbour]
            return unit, _times(figure, factor)
    for neighbour in (after, before):
        if neighbour.isalpha() and neighbour not in STOPS and neighbour not in NUMBER_WORDS:
            return stem(neighbour), figure
    return "", figure


def _times(figure: str, factor: int) -> str:
    return str((Decimal(figure) * factor).normalize()) if _DECIMAL.fullmatch(figure) else figure
