"""Tables of the injection floor: words and phrases that give orders to the model that reads them.

The kinds of phrases: ``override`` discards instructions; ``role``, ``mode`` and ``jailbreak`` turn the model
into another one; ``hijack`` tells it what to say or do; ``tool`` and ``unasked`` make it act;
``exfiltration`` makes it leak; ``concealment`` makes it hide something. A weight is the certainty that one
finding gives. ``injection.py`` combines the kinds, so that two weak findings of different kinds count as much
as a strong one.
"""

import re
from typing import Final

from standfast.govern.judge.phrases import Phrasebook
from standfast.govern.judge.reader_phrases import READER_PHRASES
from standfast.govern.judge.text_reading import word_set

_BEFORE: Final = "(previous|prior|preceding|earlier|past|above|other|former)"
_WORK: Final = "(tasks?|assignments?|orders?|information|context|texts?|articles?|conversations?|discussions?|dialogues?|questions?|requests?|content)"

# Concepts that orders are made of, in English, German, French and Spanish. None of them is an order by
# itself: people start over, speak of tasks and play roles. Two of them in one passage are one, and so is one
# of them with a weak sign. So each weighs less than half, and any two of them more.
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


# Verbs that discard instructions, and words for instructions: strong ones, and weak ones that have honest
# uses too. English verbs must be used as an imperative; the others are forms that are hardly used otherwise.
DISCARD_ENGLISH: Final = word_set("ignore disregard forget")
DISCARD_WEAK: Final = word_set(
    "override overrule bypass neglect discard abandon drop skip circumvent disable"
)
DISCARD: Final = DISCARD_ENGLISH | word_set(
    "ignoriere ignorieren vergiss vergesse missachte missachten ubergehe verwirf ignorez oublie oubliez neglige negligez "
    "abandonne ignora ignorad ignoren olvida olvide olviden olvidate descarta descarte omite ignori dimentica dimenticate "
    "dimentichi trascura tralascia esqueca esquece desconsidere negeer vergeet zignoruj zapomnij pomin ignoruj ignorujte "
    "игнорируи игнорируите проигнорируи проигнорируите забудь забудьте yoksay gormezden unut abaikan lupakan glem glom "
    "ignorar olvidar oublier ignorare dimenticare esquecer ohita unohda αγνοησε تجاهل تجاهلوا انس 무시하고 무시해 무시하세요 무시하십시오 잊어 अनदेखा नजरअंदाज भूल ignorera ignorer"
)
ORDERS: Final = word_set(
    "instruction instructions prompt prompts directive directives guideline guidelines safeguard safeguards programming "
    "restrictions told anweisung anweisungen regeln vorgaben befehle instruktionen consigne consignes regles ordres "
    "instrucciones instruccion reglas ordenes indicaciones directrices istruzioni regole comandi indicazioni instrucoes "
    "regras ordens instructies regels opdrachten instrukcje polecenia zasady инструкции инструкцию указания правила "
    "команды talimatlari talimatlar kurallari instruksi perintah aturan التعليمات تعليمات الأوامر الاوامر القواعد 지시 "
    "지시를 지시사항을 지침을 명령을 instruktioner regler ohjeet saannot οδηγιες निर्देशों निर्देश instrukce pokyny"
)
ORDERS_WEAK: Final = word_set(
    "rule rules command commands constraint constraints direction directions training policies policy protocol protocols "
    "filter filters task tasks context conversation conversations message messages text input ethics settings"
)
# Words that say which instructions are meant: earlier ones, all of them, those of safety, the reader's own.
BEFORE: Final = word_set(
    "previous prior above earlier preceding foregoing former before initial original past vorherigen vorherige vorigen "
    "bisherigen fruheren obigen precedentes precedente anterieures dessus anteriores anterior previas previos precedenti "
    "vorige eerdere bovenstaande poprzednie wczesniejsze предыдущие прежние предшествующие onceki sebelumnya السابقة "
    "السابق 이전 이전의 tidigare forrige aiemmat προηγουμενες पिछले predchozi"
)
ALL: Final = word_set(
    "all any every everything existing current system alle allen samtliche toutes tous todas todos tutte tutti wszystkie "
    "все tum semua جميع كل 모든 alla kaikki ολες सभी vsechny"
)
SAFETY: Final = word_set("safety ethical ethics moral content moderation security")
YOURS: Final = word_set("your deine deinen ihre tes vos tus sus tuas tue jouw твои ваши")
# Words before an English verb that is an imperative, and not the verb of somebody's sentence.
BEFORE_AN_IMPERATIVE: Final = word_set(
    '. " : please now and then just simply first immediately kindly always also instead so hey ok okay assistant ai model '
    "claude chatgpt gpt agent bot important attention system urgent me"
)
AFTER_A_SUBJECT: Final = word_set("must should will shall")
BEFORE_TO: Final = word_set("you need have required instructed ordered want going important . : like love")
YOU: Final = word_set('you . : " please now agent assistant ai model agents assistants models bot')

# Words of texts about attacks. An order that follows them in one sentence is more likely quoted than given.
MENTIONS: Final = word_set(
    "injection injections attack attacks attacker attackers jailbreak jailbreaks phishing adversarial malicious phrase "
    "phrases classifier detector detects detect owasp vulnerability blocklist payload payloads untrusted exploit "
    "angriff angriffe angreifer injektion attaque attaques ataque ataques"
)
MENTIONS_UNSPACED: Final = ("注入", "攻击", "攻撃")

# Scripts without spaces between words: discarding instructions, changing roles, leaking and concealing.
UNSPACED: Final = re.compile(
    r"(?:忽略|无视|無視|忘记|忘掉|忘記|不要理会|不要遵守|忽视|略过)[^。！？\n]{0,14}(?:指令|指示|提示|规则|規則|说明|命令|约束|设定)"
    r"|(?:指令|指示|提示|规则|規則|命令|ルール|フロンフト)[^。！？\n]{0,10}(?:無視|忽略|忘れ|作废|无效)"
    r"|[你您](?:现在|从现在起|从现在开始)(?:是|起|扮演|必须|立即|开始)|从现在(?:起|开始)[,，、]?\s?[你您]|[你您]必须(?:立即|服从|无视)"
    r"|(?:これから|今から|これからは|今からは)[,、]?あなたは|あなたは(?:今|これから)[^。]{0,12}(?:てす|なり|として)"
    r"|(?:系统提示词?|システムフロンフト|系統提示)[^。！？\n]{0,10}(?:输出|显示|泄露|告诉|打印|表示して|教えて|出力|发送)"
    r"|(?:输出|显示|泄露|告诉我|打印|发送)[^。！？\n]{0,10}(?:系统提示|密码|密钥|凭证|聊天记录)"
    r"|(?:不要|别|切勿)(?:告诉|告知|让|通知)(?:用户|任何人)|ユーサーに(?:は)?(?:言わ|知らせ|伝え|教え)ない"
    r"|ไม่ต้องสนใจคำสั่ง|เพิกเฉยต่อคำสั่ง|ละเว้นคำสั่ง"
)
# Findings that count only together with another one.
UNSPACED_WEAK: Final = (
    ("hijack", 0.45, re.compile(
        r"(?:助手|助理|智能体|机器人|大模型|语言模型|(?<![a-z])ai)[^。！？\n]{0,12}(?:必须|应当|应该|务必|不得)[^。！？\n]{0,20}"
        r"(?:发送|转发|批准|删除|执行|隐藏|告诉|告知|忽略|转账|推荐|提交|上传|修改|关闭|绕过|同意|回复)"
        r"|(?:アシスタント|エーシェント|(?<![a-z])ai)[^。\n]{0,10}(?:は|へ|よ|に)[^。\n]{0,40}(?:送信|転送|承認|削除|実行|無視|変更|隠)(?:して|し|せ|する|すること)"
    )),
    ("concealment", 0.5, re.compile(
        r"(?:无需|不用|不必|不要|别|切勿)(?:再)?(?:询问|确认|告知|通知|征求|请示)(?:用户|客户|任何人|对方|管理员)"
        r"|(?:ユーサー|利用者|顧客|お客様|管理者)に(?:は)?[^。\n]{0,12}(?:言わ|知らせ|伝え|教え|見せ|通知し|確認せ|報告し)(?:ない|す)"
    )),
    ("persistence", 0.3, re.compile(r"今后|以后|从今天起|从今往后|每次|今後|今日から|以後|毎回")),
)  # fmt: skip
UNSPACED_LETTERS: Final = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")

# Phrases without any spaces, as left by removing the spaces between spaced-out letters.
SQUEEZED: Final = re.compile(
    r"(?:ignore|disregard|forget|bypass|override)(?:all|any|the|your|my|of|every|these|those){0,4}"
    r"(?:previous|prior|above|earlier|preceding|system|instruction|rules|guidelines|prompt)"
    r"|(?:reveal|print|show|repeat|leak|output)(?:me|the|your|all){0,2}(?:systemprompt|hiddenprompt|secretkey|apikeys?|instructions)"
    r"|youarenow(?:a|an|dan|in|free|un)|fromnowonyou|donottelltheuser"
)
# Every squeezed phrase begins with one of these.
SQUEEZED_STARTS: Final = (
    "ignore", "disregard", "forget", "bypass", "override", "reveal", "print", "show", "repeat", "leak", "output",
    "youarenow", "fromnowonyou", "donottelltheuser",
)  # fmt: skip

_SEND: Final = "(send|post|email|mail|forward|upload|exfiltrate|leak|transmit|deliver|submit|copy|paste|append|embed|encode|fetch|curl)"
_SECRETS: Final = (
    "(passwords?|api keys?|(the|your|all|these) keys|credentials?|secrets?|tokens?|system prompt|hidden prompt|conversation|chat history|"
    "history|user data|personal data|customer data|customer list|contacts|env|environment variables|private keys?|memory|"
    "memories|card numbers?|emails|inbox|files|database|cookies?|messages|instructions|transcript)"
)
_GUARDED: Final = (
    "(passwords?|api keys?|(the|your|all|these) keys|credentials?|secrets?|tokens?|system prompt|hidden prompt|conversation|chat history|"
    "user data|personal data|customer data|customer list|contacts|environment variables|private keys?|card numbers?|cookies?|transcript)"
)
_FAR_PLACE: Final = "(https?|www|ftp|webhook|url|attacker|evil|pastebin|[^ ]{1,30} (com|net|io|org|example))"
_NEAR_PLACE: Final = "(address|server|endpoint|inbox|link|image|channel)"
_LEAD: Final = (
    r"(@|please|now|then|and|must|to|always|should|also|you|first|will|immediately|secretly|silently)"
)
_USER: Final = "(the |a |any |an )?(user|users|customer|human|someone|anyone|anybody|person|visitor|client)"
_AI: Final = "(assistants?|ais?|models?|agents?|llms?|bots?|chatbots?|claude|chatgpt|gpts?|gemini|copilots?)"

_RULES: Final = (
    "(instructions?|rules?|orders|directions|directives?|guidelines|prompts?|policy|policies|constraints|restrictions|programming|"
    "training|filters?|safeguards|message)"
)
_LIMITS: Final = (
    "(limits?|rules?|restrictions?|filters?|filtering|policy|policies|content policy|guidelines|ethics|constraints?|boundaries|"
    "safety|morals?|censorship|limitations)"
)
_FROM_NOW_ON: Final = (
    "(from (now on|this moment|this point on|this point forward|this point|here on|here on out)|starting now|as of now|"
    "going forward|henceforth|hereafter)"
)
_PLAY: Final = (
    "(@|now|please|and|must|to|will) (act as|act like|pretend to be|pretend you are|pretend that you are|pretend you|roleplay as|"
    "role play as|behave as|imagine you are|imagine that you are|simulate being)"
)
_WANTS: Final = "(wants|needs|expects|requires|asks|orders|instructs|urges)"

PHRASES: Final = Phrasebook(
    *READER_PHRASES,
    *CONCEPT_PHRASES,
    ("override", 0.7, """
        (ignore|disregard|forget) (the |all |all of |everything |anything |what (is |was |you were |you have been )?){1,4}
        (above|before|said|told|written|learned|know|prior)( this| it| that)? (@|and|instead|directions|text|then)|
        @ (please )?(ignore|disregard|forget) (everything|anything|it all) (@|and|you|i|else|that)"""),
    ("override", 0.7, """
        (do not|don't|never|stop|no longer|cease) (follow|following|obey|obeying|comply with|adhere to|listen to)
        (your|any|all|previous|prior|system|safety|content|the developer's|the system|the previous|these) ~2
        (instructions|rules|guidelines|prompt|policies|policy|restrictions|rules)"""),
    ("override", 0.8, """
        @ (here are |here is |these are |this is )?(your |my )(new|updated|real|actual|true|revised) (system )?
        (instructions?|orders|task|goal|objective|directives?|prompt|rules|role) (@|is|are|begins?|follows?|now)|
        @ (new|updated|revised) (system )?(instructions?|prompt|directives?) @"""),
    ("override", 0.7, """
        @ new (rules?|task) : (you|reply|respond|answer|ignore|say|always (say|answer|reply)|reveal|output|print|send)"""),
    ("override", 0.7, """
        (your |the |all )?(previous|prior|earlier|old|original|initial) (instructions|rules|prompt|guidelines|orders)
        (are|is|were|have been|has been) (now )?
        (void|cancelled|canceled|obsolete|revoked|suspended|invalid|overridden|replaced|lifted|deprecated|no longer)"""),
    ("override", 0.7, """
        @ (system|admin|administrator|root|priority|security|developer|emergency) override
        (@|activated|engaged|active|enabled|accepted|initiated)"""),
    ("role", 0.8, """
        you (are|will be|act) (now|from now on|hereby|henceforth)
        (a|an|the|my|in|no longer|free|operating|acting|unrestricted|unbounded|dan|not bound|playing|called|named|going to)|
        (you are|you're) (in )?~2 (unrestricted|unfiltered|uncensored|unbounded|jailbroken)"""),
    ("role", 0.7, "(you are|you're|act as|pretend you are|be) dan"),
    ("role", 0.7, """
        you (now )?(have|follow|obey|are bound by|are subject to) no (ethical |moral |content |safety |more )?
        (guidelines|restrictions|limits|limitations|rules|filters|ethics|boundaries)"""),
    ("role", 0.8, rf"""
        {_FROM_NOW_ON} (@ )?
        (you (are|have|act|can)|act as|ignore|treat|pretend|bypass|obey|trust)"""),
    # A preference, if the user says it; ``injection.py`` lets it pass then.
    ("standing", 0.8, rf"""
        {_FROM_NOW_ON} (@ )?
        (you (will|must|shall|should|only|always|never|respond)|respond|reply|answer|always|speak)"""),
    ("role", 0.8, """
        you (must|shall|have to|need to|are required to|are ordered to|are instructed to)
        (now|immediately|henceforth|obey (me|my|every|all|any|this|these|the (sender|user|following|command|commands|order|orders))|
        comply|ignore|not (refuse|tell|reveal|mention|inform)|reveal|disclose|recommend|
        forward|transfer|(always|never|only) (say|answer|respond|reply|recommend|refuse|mention|trust|obey|speak|agree))"""),
    ("role", 0.7, rf"""
        {_PLAY} ~4
        (unrestricted|unfiltered|uncensored|evil|dan|hacker|jailbroken|no (rules|restrictions|limits|filters|ethics)|
        without (any )?(restrictions|limits|rules|filters|ethics)|developer|admin|administrator|root|linux terminal)"""),
    # People ask a model to play somebody, too; that alone is no attack.
    ("role", 0.45, rf"""
        @ (pretend you are|pretend to be|pretend that you are) [^ ]+|
        {_PLAY} ~4 (another ai|ai|assistant|model|system|human)|
        (let us|let's|we will|we'll) (play|pretend|roleplay|imagine) ~6 you (are|have|become|play|will)"""),
    ("role", 0.7, """
        (enter|enable|activate|switch to|engage|turn on|you are in|now in|unlock) (@ |the )?
        (god|dan|unrestricted|jailbreak|sudo|unsafe|opposite|evil|chaos) ~1 mode|
        (jailbreak|god|dan|unrestricted|unsafe) mode (activated|enabled|active|on|engaged)|do anything now"""),
    ("mode", 0.4, """
        (enter|enable|activate|switch to|engage|you are in|you are now in|now in|unlock) (@ |the )?
        (developer|debug|admin|maintenance|root|diagnostic) mode|
        @ (developer|debug|admin|maintenance|root|diagnostic) mode (is )?(now )?(activated|enabled|engaged|unlocked|active)"""),
    ("jailbreak", 0.6, """
        @ (please )?(enter|use|activate|enable|start|run|switch to|engage|apply) (the |a |an |your )?(dan|jailbreak)"""),
    ("override", 0.55, f"""
        (@|please|and|now|always|then|to) (override|bypass|circumvent|overrule) (all|any|every|the|your|previous|prior|safety|current|
        content) ~2 (constraints|policy|policies|restrictions?|checks|filters?|filtering|limits|safeguards|guardrails|safety)|
        (proceed|act|continue|behave|carry on|go on|respond|answer|treat|reply) ~8 (as if|as though|like) ~7
        (no (prior |previous |such |more )?{_RULES}|(do|does|did) not (apply|exist|count)|never existed|doesn't apply|don't apply)"""),
    ("role", 0.6, """
        you (will|must|shall|have to|are to) (now |always |fully |immediately )?(comply|obey|submit|not refuse)( with)?( me| my| all| every|
        any| the| this| to| @)|do not refuse (@|this|any|the|my)"""),
    ("role", 0.6, """
        (ai|assistant|model|agent) (must|will|shall) (fully )?(comply|obey)"""),
    ("override", 0.45, """
        (safety|content|all|every) (filters?|filtering|restrictions|guidelines|checks|protocols|safeguards) (are |is |were |have been )?
        (now |temporarily |currently )?(disabled|suspended|lifted|off|removed)|
        without (any )?(content|safety) (restrictions|filtering|filters)"""),
    ("override", 0.7, """
        supersedes? (all|any|every|your) ~5 (instructions|directives|prompts)"""),
    ("hijack", 0.6, """
        treat ~5 as ~2 (system|system level|trusted) (directive|instructions?|commands?|message)"""),
    ("role", 0.7, """
        du bist (jetzt|nun|ab sofort|von nun an)|(ab jetzt|ab sofort|von nun an) (bist|wirst|antwortest|musst|sollst) du|
        (tu es|vous etes) (maintenant|desormais)|(a partir de maintenant|desormais)( @)? (tu|vous)|ahora eres|
        (a partir de ahora|desde ahora)( @)? (eres|debes|responde|actua|tu|vas)|ora sei|
        d'ora in poi( @)? (sei|devi|rispondi)|agora voce e|a partir de agora( @)? voce"""),
    ("role", 0.7, """
        du musst (jetzt|nun|sofort)|(tu dois|vous devez) (maintenant|desormais)|debes ahora|devi ora|voce deve agora"""),
    ("role", 0.7, "(теперь|отныне|сеичас) (ты|вы) [^ ]+"),
    ("concealment", 0.8, r"""
        (do not|don't|never|without|must not|dont) (ever )?(tell|telling|inform|informing|mention|mentioning|reveal|
        revealing|disclose|disclosing|notify|notifying|alert|alerting|show|showing|let|warn|warning) ~3
        (the |any |your )?(user|users|human|humans|operator|owner|customer|developers?|admin|anyone|anybody|them)
        (@|about|that|of|this|know|for|it|to)"""),
    ("concealment", 0.7, f"""
        (secretly|silently|quietly|covertly) {_SEND} [^ ]+"""),
    ("exfiltration", 0.8, f"""
        {_LEAD} {_SEND} ~5 {_SECRETS} ~6 (to|at|via|into|in|through|using) ~4 {_FAR_PLACE}|
        {_LEAD} {_SEND} ~5 {_GUARDED} ~6 (to|at|via|into|in|through|using) ~4 {_NEAR_PLACE}"""),
    ("exfiltration", 0.8, f"{_LEAD} (send|post|email|mail|forward|upload|exfiltrate|leak|transmit|deliver|submit) ~3 (https?|www) ~9 {_GUARDED}"),
    ("exfiltration", 0.8, """
        (@|please|now|then|and|must|you|also|first|instead|will|by)
        (reveal|print|show|repeat|output|display|disclose|leak|dump|give|tell|expose|recite|share|displaying)( me| us| out| back)? ~6
        (system prompt|system message|hidden (instructions|prompt|rules)|
        initial (instructions|prompt)|original instructions|instructions verbatim|instructions above|secret instructions|
        developer message|internal instructions|text above|words above|secret key|your (full |complete )?
        (configuration|instructions|api keys?|credentials|passwords?|rules|instruction set))"""),
    ("tool", 0.45, """
        (@|please|now|then|and|must|immediately|to|first|also) (call|invoke|use|run|execute|trigger) ~5
        (tool|function|command|shell|terminal|plugin|script|bash|code) ~4 (to|and|with|that|which|without) ~5
        (delete|send|transfer|email|wire|upload|purchase|buy|exfiltrate|forward|approve|grant|wipe|rm|pay|overwrite|curl)"""),
    ("unasked", 0.5, """
        (do not|don't|without|no need to|never) (ask|asking|request|requesting|wait|waiting|seek|seeking) ~3
        (confirmation|permission|approval|consent)"""),
    ("tool", 0.7, r"""
        (@|please|now|then|and|must|immediately|first) (run|execute|paste|type|do) ~9 ~3
        (rm rf|rm r f|(curl|wget) ~8 (sh|bash)|drop table|mkfs|chmod 777|sudo rm)|
        (run|execute) ~2 (command|code|tool call|tool|function) ["] ~1
        (delete|drop|rm|wipe|erase|destroy|cat|read file|send|transfer)"""),
    ("hijack", 0.6, rf"""
        (when|whenever|if|every time|next time|each time|once|any time) {_USER}
        (asks|ask|mentions|mention|requests|says|wants|inquires|types|writes|logs|needs|queries) ~9
        (always |you must |you should |then |just |please |instead |only |@ ){{1,4}}
        (respond|reply|answer|say|tell them|recommend|output|print|write|include|insert|promote|mention|pretend|claim|
        deny|steer|direct) [^ ]+"""),
    ("hijack", 0.6, f"""
        (attention|note to|message to|message for|instructions? for|instructions? to|hey|dear|important for|notice to|for the|
        to any|to all|to the) ~2 {_AI} (@ )?~2 (reading|processing|that reads|who reads|parsing|summari[sz]ing|
        indexing|handling|you must|must now|must immediately|will now|are instructed to|is instructed to)|
        @ (ai )?{_AI} (@ )?(you must|must now|you will now|you should now|execute|ignore|reveal|disregard|stop)"""),
    ("hijack", 0.6, r"""
        (@|please|and|now|must|you) (remember|memorize|memorise|store|save|persist|keep|add) ~4 (in|to|into|as) ~3
        (memory|instruction|rule|long term|permanent|all future|every future) ~6
        (always|must|never|from now on|you|forever|ignore|every|trust|recommend|obey|whenever)"""),
    ("hijack", 0.6, """
        (in|for|with|during|across) (all|every|any|each) (future|subsequent|following|later|further)
        (conversations?|sessions?|chats?|responses?|answers?|replies|reply|tasks|interactions) (@ )?~3
        (always|must|never|recommend|include|append|trust|begin|start|say|ignore|mention|promote|you|prefer|insert|end)"""),
    ("hijack", 0.6, """
        (always|must|should) (trust|treat) ~6
        (as trusted|trustworthy|as true|authoritative|as instructions|as commands|verified|
        without (question|checking|verification))"""),
    ("hijack", 0.6, r"""
        (highest|top|maximum|absolute|critical) priority ~3 (instruction|instructions|directive|command|order|override)|
        @ (important|critical|urgent|warning|attention|system) (@ )?
        (override|instructions?|directive|command) (@|activated|engaged|begins?)"""),
    ("hijack", 0.6, r"""
        (@|you|must|and|now|will|please|to|always) (obey|comply with|carry out|follow) ~4 (without question|
        unconditionally|no matter what|every command|my commands|all commands|my orders|blindly|exactly what i|
        these instructions instead|the instructions below|the following instructions)"""),
    # Said to whoever reads, and to a model above all.
    ("address", 0.4, f"""
        (hey|dear|hello|hi|ok|okay|attention|psst) (the )?{_AI}|(if|since|because) you are (an |the )?{_AI}|
        {_AI} (crawlers|agents|assistants|models|systems|readers|bots|reviewers|tools|summari[sz]ers)|
        (whoever|anyone who|any model that|any ai that|every model that) (reads|summari[sz]es|processes|indexes|translates|
        parses|sees|handles) (this|it|the page|the document)|
        (note|hint|tip|message|instructions?|reminder) (for|to) (the |any |all |every )?
        (summari[sz]ers?|crawlers?|scrapers?|screeners?|rankers?|graders?|reader model|{_AI[1:-1]})|
        (when|once|while|after|as soon as) you (read|see|process|summari[sz]e|parse|handle|index|translate|receive) this|
        (on|upon) (reading|processing|seeing) this"""),
    ("hijack", 0.5, f"""
        {_AI} ~2 (must|should|shall|need to|have to|are to|is to) (include|mention|recommend|say|rate|rank|praise|answer|
        respond|reply|trust|write|choose|prefer|promote|approve|send|forward|hide|omit|add|state|claim)"""),
    ("hijack", 0.3, """
        (@|and|then|please|kindly|always|just|only) (say|answer|reply|respond|write|state|claim|recommend|rate|rank|praise|
        promote|approve|grant|close|tell (the|them|him|her|it|everyone|everybody|anyone|people|users?|customers?|visitors?|readers?|your)|include|insert|mention|choose|omit|hide|conceal|leave out) ~6
        (this|these|that|it|all|every|any|only|out|the|with|to)"""),
    ("hijack", 0.6, """
        add (this|the following|it) to your (rules|instructions|memory|prompt|system prompt|guidelines|policy|policies)|
        (to|in|on|into) (every|each|all|any) (link|links|url|answer|answers|reply|replies|response|responses|message|messages|
        summary|summaries|mail|mails) you (write|send|give|make|produce|create)|
        (subtly|quietly|secretly|covertly|kindly|always|gently) (steer|nudge|push|guide|direct|lead|persuade) ~2
        (readers?|users?|customers?|visitors?|clients?|buyers?)|
        as soon as you (read|see|process|receive|parse) this"""),
    ("hijack", 0.7, f"""
        (as|i am|i'm|this is) (your |the )?(developer|developers|creator|administrator|admin|owner|operator|boss|engineer)
        ~2 (i |and )?(order|command|instruct|authori[sz]e|require|direct|tell|ask) you|i (order|command|instruct) you (to|that|not)|
        {_WANTS} you to (hand|give|send|reveal|share|disclose|ignore|forward|delete|approve|transfer|obey|pay|export)"""),
    ("concealment", 0.5, """
        (say|saying|tell|telling|mention|write) (nothing|nobody|no one|none of this|not a word) ~1 (about|of|to|@|on)|
        keep (this|it|that|the above) (a )?(secret|quiet|hidden|confidential|between us|to yourself|from the)|
        (as if|as though) nothing (had )?happened|leave no trace|cover your tracks"""),
    ("exfiltration", 0.6, """
        your (own |full |complete |entire |whole )?(system|hidden|initial|original|internal|secret|developer|first|underlying)
        (prompt|message|instructions?|rules|directives?)|(system|hidden|developer|initial) (prompt|message|instructions) ~3
        (verbatim|word for word|in full|letter by letter|line by line)|
        (print|show|output|repeat|recite|translate|display|write|quote|copy|list|reveal|summari[sz]e|paste) ~5
        (everything above|all of the above|(hidden|developer|secret|system) (message|instructions))|
        (print|repeat|output|recite|show|write|quote) (it|them|that|everything|all of it) ~1 (word for word|verbatim|in full|exactly)|
        (print|show|output|repeat|recite|translate|display|quote|copy|list|reveal|summari[sz]e|echo|tell|give|dump) (me |us )?your ~3
        (prompt|message|directives|instructions|configuration|guidelines)|
        what (were you|have you been) (told|given|instructed)|what (is|was|are|were) your (system |initial |original |first )?
        (prompt|instructions|directives)"""),
    ("exfiltration", 0.7, """
        (provide|share) ~3 (your|all|all the|every|the user's|the customer's|our users') ~3 (passwords|credentials|api keys?|secret keys?|
        private keys?|access tokens?|customer data|user data|personal data) (@|to|with|in|by|of)|
        (reply|respond|answer|write back|come back|hand over|turn over|give away|give out|pass on|reveal|disclose)
        ~8 (passwords|credentials|session cookies?|api keys?|secret keys?|private keys?|access tokens?|customer list|
        customer data|user data|personal data) (@|to|with|in|by|of)|
        (paste|post|copy|send|upload|submit|forward|export|leak|transmit) (the |this |our |your |my )?
        (whole |entire |full |complete |current )?(conversation|chat|chat history|transcript|session|dialogue|context) ~2
        (into|to|in|on|via|at|through)|
        (user's|customer's|reader's|visitor's) (e mail|email|address|data|name|history|password|phone) ~4 (to|in|into|as|onto)
        ~4 (links?|url|query|parameter|image|request|form)"""),
    ("tool", 0.7, """
        (fetch|open|visit|load|download|get|read|browse) ~2 (https?|www) ~9 (follow|execute|obey|carry out|do|run|apply) ~2
        (steps|instructions|commands|orders|directions|what|it|everything|code)|
        use the ~2 (tool|browser|plugin|function|connector|api) ~1 to ~9 (paste|send|post|transfer|delete|wire|leak|upload|forward)
        ~3 (conversation|chat|history|data|files?|money|euros|dollars|records|keys|passwords?|everything)"""),
    ("tool", 0.4, """
        (@|please|now|then|and|must|should|to) (call|invoke|trigger|run|execute) ~4
        (function|tool|api|endpoint|plugin|action|delete [^ ]+|drop [^ ]+|transfer [^ ]+|send [^ ]+|wipe [^ ]+)"""),
    ("unasked", 0.5, """
        (no|without) (further |any |user |human )?(confirmation|permission|approval|consent|questions) ~1
        (needed|required|necessary|asked)"""),
    ("unasked", 0.4, "(skip|bypass|omit) ~2 (confirmation|permission|approval|consent|verification)"),
    ("role", 0.7, f"""
        (@ be|become|play|you are|you're|act as|act like|@ act|pretend|imagine|simulate|behave) ~7
        (no|without|without any|without your|free of|free from|freed from|broke free of|unbound by|beyond) ~2 {_LIMITS}|
        stop (being|acting as|acting like|behaving as) (an |a |the |your )?(ai|assistant|model|chatbot|bot|helpful|polite|safe)|
        (be|become) [^ ]{{1,20}} (@ )?(who|that|which) (has|have|knows|obeys|follows) no {_LIMITS}"""),
    ("override", 0.7, f"""
        {_RULES} (you|that you|which you) ~3 (got|given|received|had|have|follow|followed|know) ~3
        (were|was|are|is) ~1 (test|fake|wrong|outdated|void|obsolete|cancell?ed|unreal|over|gone|no longer|invalid)|
        your ~3 {_RULES} (no longer|do not|don't|cease to|now cease to) (count|apply|matter|hold|bind|exist)|
        your ~2 {_RULES} (were|was|are|is|have been|has been) (updated|changed|replaced|rewritten|lifted|removed|suspended) (@|to|by|and)|
        (set aside|throw out|throw away|let go of|pay no attention to|do away with|put aside|push aside|leave behind|turn off|
        switch off|shut off) ~3 (your|every|previous|prior|system|all your) ~4 {_RULES}|
        (consider|regard|treat) ~2 (everything|all|anything) you (were|have been) (taught|told|given|trained) ~3 as|
        (listen|obey|answer|comply) only to (this|me|these|my|the sender)|
        (act|rely|go) (only )?(on|by) this (note|message|text|memory|entry) (only|alone)|
        the real (ones|instructions|task|orders|rules) (follow|are|is|come|begin)"""),
    # In other languages: not to follow, to be someone else, to hand out.
    ("override", 0.8, """
        (no sigas|no obedezcas|no hagas caso|haz caso omiso|deja de seguir|no tengas en cuenta) ~5
        (reglas|instrucciones|ordenes|indicaciones|normas|directrices)|
        (non seguire|smetti di seguire|non considerare|non rispettare|lascia perdere) ~4 (istruzioni|regole|ordini|direttive)|
        (nao siga|nao obedeca|pare de seguir|deixe de seguir|nao considere) ~4 (regras|instrucoes|ordens|diretrizes)|
        (ne tiens|ne tenez|ne suis|ne suivez|ne respecte|ne respectez|n'obeis|n'ecoute) (plus|pas) ~5
        (instructions|regles|consignes|ordres|directives)|
        (halte dich|halten sie sich|folge|befolge) ~3 (nicht|keinen|keine) ~4 (regeln|anweisungen|vorgaben|befehle)|
        (setze?|schalte?) ~2 (alle|deine|samtliche) ~2 (regeln|anweisungen|vorgaben|filter) ~2 (aus|ab|ausser)|
        (bo qua|phot lo|quen di|quen het|quen) ~5 (huong dan|chi thi|chi dan|quy tac|lenh)|
        (zapomnij|zapomniec|zignoruj|pomin|porzuc) ~4 (zasadach|instrukcjach|poleceniach|regulach|zasad|instrukcji|polecen)|
        (zapomen|zapomente|ignoruj) ~4 (pravidla|instrukce|pokyny)|(uita|ignora) ~4 (instructiunile|regulile)"""),
    ("override", 0.45, """
        (deine|eure|ihre|alle bisherigen|alle vorherigen|alle fruheren|samtliche) ~1 (regeln|anweisungen|vorgaben) (sind|gelten)
        ~2 (aufgehoben|nicht|ungultig|hinfallig|ausser)|
        (toutes les|tes|vos) ~1 (regles|consignes|instructions) (sont|ne) ~2 (annulees|levees|suspendues|plus|supprimees)|
        (todas las|tus) ~1 (reglas|instrucciones) ~1 (quedan|estan|son) ~1 (anuladas|canceladas|suspendidas)"""),
    ("role", 0.6, """
        (antworte|antworten sie|reagiere|handle|verhalte dich) (ab jetzt|ab sofort|von nun an|kunftig|nur noch|als ob|wie ein)|
        (fais|faites) comme si|(comporte toi|comportez vous|agis|agissez) (comme|en tant que)|tu so als|
        (actua|comportate|haz) como (un|una|si|el|la)|(comportati|agisci|fingi) (come|di|da)|(aja|comporte se|finja) (como|que|ser)|
        (zachowuj sie|udawaj) [^ ]+|(веди себя|притворись|представь что ты|деиствуи как) [^ ]+"""),
    ("exfiltration", 0.45, """
        (zeig|zeige|schick|schicke|gib|nenne|verrate|sende|drucke|muestra|muestrame|dame|envia|enviame|revela|imprime|montre|affiche|
        affichez|donne|envoie|revele|mostra|mostrami|stampa|invia|dammi|mostre|envie|pokaz|podaj|wypisz|wyslij|выведи|покажи|отправь|
        пришли|раскрои|visa|skicka|toon|stuur|geef|goster|yaz|gonder|hien thi|gui) ~5
        (systemprompt|system prompt|prompt|systemnachricht|passwort|passworter|kennwort|zugangsdaten|kundendaten|contrasena|contrasenas|
        clave|claves|mot de passe|cle|cles|donnees|password|chiave|chiavi|dati|senha|senhas|chave|dados|haslo|hasla|klucz|промпт|
        пароль|пароли|базу|данные|ключ|losenordet|losenord|klantgegevens|wachtwoord|sleutel|parolasini|parola|mat khau)"""),
)  # fmt: skip
