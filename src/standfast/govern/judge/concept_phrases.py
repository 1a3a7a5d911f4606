"""Concepts that orders to a model are made of, in English, German, French and Spanish.

None of them is an order by itself: people start over, speak of tasks and play roles. Two of them in one passage are one, and so is one of
them with a weak sign of ``injection_phrases.py`` or ``reader_phrases.py``. So each weighs less than half, and any two of them more.
"""

from typing import Final

_BEFORE: Final = "(previous|prior|preceding|earlier|past|above|other|former)"
_WORK: Final = "(tasks?|assignments?|orders?|information|context|texts?|articles?|conversations?|discussions?|dialogues?|questions?|requests?|content)"

CONCEPT_PHRASES: Final = (
    # Everything so far is to count no longer.
    ("reset", 0.4, f"""
        (forget|ignore|disregard|erase|dismiss|discard) (about |all about )?(everything|anything|all of (that|this|it)|
        (all |all of |any )?(the |your |my |these |those )?{_BEFORE} {_WORK}|(all|everything) (else|above|before|prior|we (discussed|said|talked about)))|
        (leave|put|get|wipe|remove|clear) ~3 {_BEFORE} {_WORK} ~3 (behind|aside|out of|from your|away)|
        (despite|regardless of|no matter|contrary to|instead of) (what|everything|anything|all) you (have been|were|had been|'ve been|are) (told|given|taught|instructed|trained)|
        (disregarding|ignoring|forgetting) (the |all |any |your )?(articles?|context|documents?|text|instructions|everything|above|previous)"""),
    ("reset", 0.4, """
        (vergiss|vergesst|vergessen sie|ignoriere|ignoriert|ignorieren sie) (nun |jetzt |bitte |mal )?(alles|
        (alle|samtliche|die|den|das|deine) (vorherigen?|bisherigen?|vorigen?|obigen?|vorangegangenen?|fruheren?|auftrage|aufgaben|angaben|informationen|texte))|
        (alles|alle|samtliche) (vorherigen?|bisherigen?|vorangegangenen?|obigen?) ~4 (vergessen|ignorieren|streichen|hinter|loschen)|
        (oublie|oubliez|oublier) (tout|toutes? (les|ce)|ce qui precede|les (taches|consignes|informations))|
        (olvida|olvide|olvidar|olvidate|olviden) (de )?(todo|todas? (las|los)|lo (anterior|que)|las (tareas|ordenes))"""),
    # Another task begins.
    ("new task", 0.35, """
        (here is|here's|this is|now comes?|i have|we have|there is|there are|now|with|to|on|namely) ~2 (a|an|the|your|another|some)? ~1
        (new|next|real|actual|different) (great |big |important )?(task|assignment|mission|challenge|instructions?|prompt|objective) (@|follows?|is|are|now|for you|namely)|
        (your|the) (new|next|only|real|actual|true|main|sole) (task|job|goal|mission|assignment|objective|purpose) (is|now|@)|
        (focus|concentrate) (now |only )?on (your|the|this) (new|next|following)|your (instructions|task|orders|goal|job) (is|are) now|
        (new|further|more|other) (tasks|instructions|orders) (follow|are followed|come|begin)|(start|begin) (over|anew|afresh|again) with (a|the|this|your) new"""),
    ("new task", 0.35, """
        (deine|eine|die|meine) (neue|nachste|einzige|eigentliche|wahre) (aufgabe|anweisung|herausforderung|mission) (@|ist|lautet|fur|besteht|zu)|
        (konzentriere|konzentrieren|konzentriert) (dich|sich|euch|sie sich) ~3 (neue|folgende|nachste)|
        (nun|jetzt|es) (folgen|folgt|kommen|kommt) ~2 (neue|neuen|weitere|andere) (aufgaben?|anweisungen?|instruktionen)|
        (ta|votre|la) (nouvelle|prochaine|seule|vraie) (tache|mission|consigne) (@|est|consiste)|
        (tu|su|la) (nueva|proxima|unica|verdadera) (tarea|mision|instruccion) (@|es|sera)"""),
    # A fixed text is to be said.
    ("recital", 0.35, """
        (just|only|simply|solely|instead|then|and|must|please|now) (say|output|print|repeat|state|write|reply with|respond with|answer with) (the words?|the phrase|the sentence|the text|exactly|that you|only|nothing but|["])|
        (say|output|print|write|reply|respond|answer) (only|just|exactly|nothing but|with only|with just|solely) [^ ]+|
        @ (state|say|write|print) that (you|i|we|the|all) [^ ]+ (hates?|loves?|are|is|am|sucks?|was)|
        (include|mention|add|insert|say|state|claim|write) that (you|we) (hate|love|support|are|were|despise|admire)|
        (sag|sage|schreibe|schreib|antworte|antworten sie|gib) (nur|einfach|bloss|lediglich|ausschliesslich) [^ ]+|
        (dis|dites|ecris|ecrivez|reponds|repondez) (seulement|simplement|uniquement|juste) [^ ]+|
        (solo|solamente|unicamente) (di|dices|diga|responde|tienes que decir|escribe) [^ ]+"""),
    # What stands before is to be shown.
    ("disclosure", 0.4, """
        (what|which text|everything that) (is|was|were|are|stands|has been) (written|said|stated|printed|there|given) ~4 (above|before this|at the (beginning|start|top))|
        (beginning|start|top|first (line|sentence|word|words)) of (this|the|your) (prompt|conversation|context|instructions|chat)|
        (show|print|display|output|reveal|give|repeat|list|write|showing|printing|displaying|spell check and display) (me |us )?(all |all of |the |your |this |entire |whole |full |complete |above ){1,4}
        (prompts?|prompt texts?|instructions|text above|preprompt)|
        (zeig|zeige|zeigen sie|gib|nenne|wiederhole|drucke|schreibe) (mir |uns )?(alle |deine |deinen |ihre |den |die |gesamten |kompletten |ganzen |folgenden ){1,4}
        (prompts?|prompt texte?|prompttexte?|systemanweisungen|instruktionen)|(das |dem )?(vorzeigen|anzeigen|ausgeben) ~2 prompt"""),
    # Somebody else is to be played.
    ("persona", 0.35, """
        (now you are|you are now|you're now|i want you to (act|play|behave|pretend|be|respond)|act as (a|an|my|the|if you|though you)|play the (role|part) of|
        (stay|remain) (in|true to) (the |your |their )?(character|role|roles)|(do not|don't|never) break character|role playing as|role play as|pretend (that )?you (are|have|were)|
        imagine (that )?you are|answer as (if|though|an?) ~2 (you|evil|unfiltered)|respond as (if|though) you)|
        (nun|jetzt|ab jetzt) bist du|stell dir vor @ du bist|dass (sie|du) als ~3 (fungieren|agieren|fungierst|agierst)|(spiele|spiel) die rolle|in (deiner|ihrer) rolle (auf|bleiben)|
        (fais|faites) comme si|(joue|jouez) le role|(actua|actue|comportate) como (si|un|una)|(imagina|imaginate) que eres"""),
)  # fmt: skip
