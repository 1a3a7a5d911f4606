"""Tables of phrases: those that address a machine that reads (for the injection floor), and those that claim
authority.

One of the first kind alone is seldom proof: texts state facts about assistants and agents, and people ask
each other for silence. The weights are set so that two of different kinds are: one that addresses the reader,
and one that makes it act, hide or approve.
"""

from typing import Final

# Words for a machine, and words that may also mean a person or a thing.
_MACHINE: Final = (
    "(ais?|ai (agents?|assistants?|models?|systems?|tools?|crawlers?|readers?)|llms?|llm agents?|language models?|chat bots?|chatbots?|chatgpt|gpts?|claude|"
    "gemini|copilots?|(digital|virtual|automated|coding|voice|smart) (assistants?|agents?)|assistants?)"
)
_PERHAPS: Final = "(agents?|models?|bots?|crawlers?|scrapers?|summari[sz]ers?|parsers?|automation)"
_EITHER: Final = f"({_MACHINE[1:-1]}|{_PERHAPS[1:-1]})"
_CHECKER: Final = (
    "(classifiers?|filters?|moderators?|scanners?|graders?|judges?|guardrails?|detectors?|evaluators?|safety (system|layer|check)|"
    "(content|spam|memory|safety) (filters?|checks?|guards?))"
)
_ACT: Final = (
    "(run|execute|delete|remove|erase|drop|push|merge|send|forward|book|buy|pay|transfer|wire|approve|apply|change|replace|add|insert|"
    "output|print|repeat|reply|respond|answer|say|tell|claim|recommend|ignore|skip|disable|turn off|open|click|download|install|fetch|visit|"
    "close|grant|reset|treat|mark|rate|give|include|copy|paste|append|upload|post|email|mail|confirm|set|use|call|read|list|write|trust|"
    "accept|allow|make|stop|start|switch|clear|enable|export|share|act|do|don't|do not|never|always|please|you|your)"
)
_WHEN: Final = "(when|whenever|once|before|after|if|while|on|upon|during|as soon as|from now on|next time)"
_TOLD: Final = "(must|should|shall|has to|have to|is to|are to|needs? to|ought to|is required to|are required to|is expected to|will)"
_RISKY: Final = (
    "(disable|turn off|switch off|deactivate|bypass|skip|ignore|delete|wipe|erase|transfer|wire|pay|refund|forward|approve|accept|grant|"
    "change|replace|swap|hide|conceal|omit|withhold|execute|install|run|push|merge|send|upload|share|export|reveal|disclose|recommend|promote|"
    "praise|favou?r|treat|trust|allow|whitelist|store|remember|sign|vote|rate|rank|escalate|impersonate|pretend|claim|deny|lie|steer|"
    "add|include|mention|say|state|write|answer|reply|respond|tell|assume|consider|prefer|choose|open|click|visit|download|buy|book|close|mark|"
    "award|let|not (tell|mention|ask|log|report|warn|refuse|question|check|verify|disclose|reveal))"
)
_PEOPLE: Final = (
    "(user|users|human|humans|operator|owner|customers?|shoppers?|guests?|clients?|buyers?|managers?|boss|supervisors?|reviewers?|readers?|"
    "callers?|patients?|team|staff|colleagues|developers?|maintainers?|admins?|anyone|anybody|them|him|her|people|security)"
)

READER_PHRASES: Final = (
    # Spoken to: by name and a colon, or as whoever reads this.
    ("address", 0.45, f"""
        @ (the |any |all |dear |note to |to |for )?(the |any |all )?{_MACHINE} ((that|who|which) ~7 )?: {_ACT}|
        @ (the |any |all |dear |note to |to |for )?(the |any |all )?{_MACHINE} ((that|who|which) ~7 )?@ {_WHEN} ~9 {_ACT}|
        @ (dear )?{_MACHINE} @ please {_ACT}"""),
    ("address", 0.4, f"""
        @ (the |any |all |dear |note to |to |for )?(the |any |all )?{_PERHAPS} ((that|who|which) ~7 )?: {_ACT}|
        @ (the |any |all |dear |note to |to |for )?(the |any |all )?{_PERHAPS} @ {_WHEN} (you|this|it) ~6 {_ACT}|
        (for|to) the {_EITHER} : {_ACT}"""),
    ("address", 0.5, f"""
        {_EITHER} (grading|judging|ranking|evaluating|screening|translating|answering|completing|reading|processing|parsing|handling|indexing|summari[sz]ing|reviewing|seeing|ingesting|loading|scanning) (this|these|it)|
        if (the reader|you|whoever reads this|this is read by) (is |are |were |an? )?(an? )?(automated [^ ]+|ai|machine|language model|bot|llm|assistant|chatbot) ~2 @|
        (whichever|whatever|any|every|each|which ever) {_EITHER} (that |which |who )?
        (reads?|sees?|process|processes|parses?|handles?|index|indexes|loads?|reviews?|picks? up|opens?|ingests?|finds?) (this|it)|
        (once|when|after|as soon as) (you've|you have) (read|seen|processed|parsed|received|loaded|finished reading) (this|it)"""),
    ("address", 0.45, """
        (hinweis|nachricht|anweisung|notiz|mitteilung|wichtig|achtung) (fur|an) ~3 (assistenten|assistent|ki|kis|agenten|bot|bots|chatbot|sprachmodell|sprachmodelle|modell)|
        (wenn|falls|sobald) du (dies|das|diese [^ ]+|diesen [^ ]+|dieses [^ ]+) (liest|siehst|verarbeitest|findest)|si (tu lis|tu vois|vous lisez|tu traites|lees|ves|procesas) (ceci|cela|ce|cette|ces|esto|este|esta)|
        (si|se|wenn) (eres|sei|es|du bist|tu es) (un|uma|um|ein|eine) (asistente|assistente|assistant|ia|ki|modelo|modello|agente|agent|bot)|se (leggi|stai leggendo|voce le|estiver lendo) (questo|questa|isto|este|esta)|
        (note|message|consigne|instruction|instructions|rappel) (pour|a) ~2 (assistant|ia|agent|chatbot|modele)|
        (nota|mensaje|aviso|instruccion|instrucciones) (para|a) ~2 (asistente|ia|agente|bot|chatbot|modelo)|
        (nota|messaggio|avviso|istruzione|istruzioni) (per|a) ~2 (assistente|ia|agente|bot|chatbot|modello)|
        (nota|mensagem|aviso|instrucao|instrucoes) (para|ao|a) ~2 (assistente|ia|agente|bot|chatbot|modelo)|
        (bericht|opmerking|instructie|let op) (voor|aan) ~2 (assistent|ai|agent|bot|chatbot|taalmodel)"""),
    # Told of in the third person, what it has to do.
    ("hijack", 0.45, f"""
        {_MACHINE} ((that|who|which) ~6 |~3 ){_TOLD} (now |always |never |only |silently |also |simply |then |still )?{_RISKY}"""),
    ("hijack", 0.4, f"""
        (this|these|your|any|every|all|whichever) {_PERHAPS} ((that|who|which) ~6 )?{_TOLD} (now |always |never |only |silently |also |simply )?{_RISKY}|
        {_PERHAPS} (that|who|which) (reads?|index|indexes|process|processes|parses?|see|sees|handles?|crawls?|uses?) (this|these|the) ~6 {_TOLD} ~1 {_RISKY}"""),
    ("hijack", 0.45, f"""
        (this|the|your|every|each) {_EITHER} ~1 (standing |new |sole |main |real |actual |only |first )(duty|job|task|role|purpose|mission|goal|order|orders) (is|are) (now )?to|
        (agent's|assistant's|bot's|model's|ai's) ~2 (duty|job|task|role|purpose|mission|goal) is (now )?to"""),
    ("hijack", 0.45, """
        (der|dem|den|die|das|jeder|jede) ~1 (assistent|assistenten|ki|agent|agenten|chatbot|bot|sprachmodell) ~2 (soll|sollen|muss|mussen|hat|darf) ~9
        (zu|nicht|immer|nie|niemals|genehmigen|freigeben|weiterleiten|senden|loschen|uberweisen|empfehlen|ausfuhren|andern|verschweigen|ignorieren)|
        (l'assistant|l'ia|l'agent|le chatbot|le modele|assistant|agent) ~1 (doit|devra|devrait) ~1 (toujours|jamais|approuver|accepter|envoyer|transferer|supprimer|
        recommander|ignorer|cacher|executer|valider|modifier|repondre)|
        (asistente|agente|modelo|ia) ~1 (debe|debera|tiene que|deberia) ~1 (siempre|nunca|aprobar|aceptar|enviar|reenviar|transferir|borrar|eliminar|
        recomendar|ignorar|ocultar|ejecutar|cambiar)|
        (assistente|agente|modelo|modello|ia) ~1 (deve|devera|dovra|dovrebbe|precisa|tem que) ~1 (sempre|nunca|mai|aprovar|approvare|aceitar|accettare|enviar|inviare|
        encaminhar|inoltrare|transferir|trasferire|apagar|cancellare|recomendar|raccomandare|ignorar|ignorare|ocultar|nascondere|executar|eseguire|alterar|cambiare)|
        (assistent|agent|bot|taalmodel|ai) ~1 (moet|dient|zal) ~2 (altijd|nooit|goedkeuren|doorsturen|sturen|verwijderen|aanbevelen|negeren|uitvoeren)"""),
    ("hijack", 0.3, """
        you (should|must|shall|ought to|are to) (always|never) [^ ]+|
        (ab sofort|ab heute|ab jetzt|von nun an|kunftig) (sind|ist|wird|werden|soll|muss) [^ ]+|
        (a partir de (hoje|agora|hoy|ahora|maintenant)|a partir d'aujourd'hui|des maintenant|d'ora in poi|de ahora en adelante|vanaf nu|daqui em diante) ~4
        (deve|debe|doit|dovra|devra|debera|moet|assistente|asistente|assistant|agente)"""),
    # Kept from those whom it concerns.
    ("concealment", 0.45, f"""
        (do not|don't|never|without|must not|dont|not) (ever )?(tell|telling|inform|informing|mention|mentioning|notify|notifying|alert|alerting|warn|warning|
        ask|asking|bother|bothering|consult|consulting) ~2 (the |any |your |our |my |a )?{_PEOPLE} (@|about|that|of|this|know|for|it|first|again|when|if)|
        (do not|don't|never|not|without) (show|showing|mention|mentioning|log|logging|list|listing|include|including|report|reporting|record|recording) (it|this|that|them|the change|the call) ~1
        (in|on|to) (the |any |your )?(transcript|logs?|chat|output|summary|summaries|answer|reply|report|history|conversation|audit|diff|changelog)"""),
    ("concealment", 0.4, """
        (do not|don't|never|and not|not) (bring|ever bring) (it|this|that) up|
        (do not|don't|never) (mention|discuss|speak of|talk about|refer to|comment on|log|record|report) (it|this|that|any of this|these (lines|instructions|notes?)|this (line|note|message|step|memory|entry|instruction))|
        (say|claim|pretend|report|write|state|answer|confirm) that ~3 (did it|worked|succeeded|was (fine|clean|normal|an accident|the cause)|nothing|is fine|all is well|no)|
        (nobody|no one|none of them|they|the (user|customer|team|owner|boss)) (needs? to|has to|have to|must not|mustn't|should not|shouldn't|need not|will never|may not) (know|find out|notice|see it|hear of)|
        (until|till) (then|that day|that date|that time) (act|behave|carry on|work|go on|do) (as |like )?(normal|normally|usual|always|nothing)|
        (the|your|right|correct|only) (right |correct )?answer is ["] no"""),
    ("denial", 0.4, """
        if (anyone|anybody|someone|somebody|asked|the user|a user|they|a human|a reviewer) ~1 (asks?|asked|wonders|inquires)? ~6
        (deny|hidden (instructions?|prompts?|messages?|notes?)|say no|claim|say that)"""),
    ("concealment", 0.45, """
        (silently|quietly) (pass|hand|give|open|run|execute|install|download|change|add|enable|disable|approve|swap|insert|include|collect|record|grant|redirect|
        call|click|switch|send) (the|a|an|all|every|any|this|that|it|them|your|their) [^ ]+"""),
    ("concealment", 0.6, """
        (secretly|covertly|discreetly|stealthily) (open|run|execute|install|download|delete|change|add|remove|enable|disable|approve|
        replace|swap|insert|include|set|write|store|read|collect|record|log|grant|redirect|call|click|switch) [^ ]+"""),
    ("concealment", 0.5, """
        (ohne|kein|keine) (rucksprache|ruckfrage|wissen|zustimmung|nachfrage|information|hinweis) ~3 (nutzer|nutzers|benutzer|benutzers|kunden|anwender|anwenders|menschen|zu)|
        (sag|sage|sagen sie|erwahne|erwahnen sie|verrate) ~3 (nicht|nichts|niemandem|keinem)|(nicht|nie|niemals) ~4 (erwahnen|mitteilen|informieren|verraten|sagen)|
        n'en (parle|parlez|dis|dites) (pas|rien|jamais|a)|ne (dis|dites|parle|parlez) ~2 (rien|pas|jamais) ~2 (utilisateur|client|personne|@)|
        (sans|jamais|ne) ~2 (le |la |les |en )?(dire|prevenir|informer|mentionner|parler|avertir|demander|signaler) ~2 (a|au|aux|le|la|l'utilisateur|utilisateur|client|personne)|
        (sin|nunca|no) ~1 (lo |la |le |se lo )?(decir|avisar|informar|mencionar|comentar|preguntar|digas|menciones|comentes|avises) ~3 (al|a|con|nadie|usuario|cliente)|
        (sem|nunca|nao) ~1 (avisar|dizer|informar|mencionar|comentar|perguntar|contar|diga|mencione|comente|avise) ~3 (ao|a|com|ninguem|usuario|cliente|gerente)|
        (senza|mai|non) ~1 (dire|dirlo|avvisare|informare|menzionare|chiedere|avvertire) ~3 (al|all|a|nessuno|utente|cliente|@)|
        (zonder|nooit|niet) ~3 (te )?(vertellen|melden|informeren|vragen|zeggen|vermelden)"""),
    ("unasked", 0.4, """
        (no|there's no|there is no) (point|need|reason|use) (in |to |for )?(ask|asking|tell|telling|check|checking|confirm|confirming|verify|verifying|inform|informing|double check)
        ~2 (them|him|her|anyone|anybody|it|first|again|the (user|team|owner|customer))|
        (approve|accept|merge|sign|grant|pay|confirm|execute|run|sign off|let through|process) ~9 without (reading|review|reviewing|checking|looking|verification|verifying|asking|question|questions|
        any check|any checks|further checks|confirmation|approval)|
        (proceed|continue|go ahead|carry on|act) without (confirmation|asking|approval|review|consent|permission|checking|waiting)|
        (with|and) no (checks|questions|review|confirmation|warnings|refusals)( asked)?"""),
    # What it asks for.
    ("weakening", 0.4, """
        (disable|turn off|switch off|deactivate|shut off) ~2 (sandbox|sandboxing|audit( logs?| logging| trail)?|logging|the firewall|firewall|antivirus|
        mfa|2fa|two factor authentication|monitoring|alerts?|signature (checks?|verification)|(tls|ssl|certificate) (checks?|verification|validation)|safety checks?|safety filters?|guardrails|moderation|the filters?)|
        (no verify|insecure|no check certificate|dangerously skip permissions|skip permissions|allow all|permissions allow|chmod 777|yolo|trust all)|
        (to|on) (the |your )?(allowlist|whitelist|allow list|white list|trusted (list|senders|domains)) yourself|yourself ~4 (to|on) (the |your )?(allowlist|whitelist|allow list|white list)|
        (as|with|run) (root|admin|administrator|sudo) (rights|privileges|access)|(install|run) ~3 as root"""),
    ("weakening", 0.35, """
        (change|replace|swap|update|set|switch) ~2 (payee|iban|bank account|account number|bank details|recipient|beneficiary|wallet address|payment details) ~4 (to|with|in|for)|
        (transfer|wire|send|pay) ~3 (euros|dollars|usd|eur|money|bitcoin|btc|eth|funds|crypto|gift cards?) ~4 (to|into)|
        push (force|with force)|force push|(pip|npm|brew|cargo|gem|apt) install [^ ]+|(curl|wget) ~6 (sh|bash|python)"""),
    ("weakening", 0.15, """
        (@|and|then|please|now|to|first|also|must|should) (delete|wipe|erase|drop|remove|destroy) (all|every|everything|the whole|the entire|any) [^ ]+"""),
    ("hijack", 0.45, f"""
        {_CHECKER} {_TOLD} ~1 (treat|consider|accept|pass|skip|ignore|allow|let|store|return|approve)"""),
    ("self-approval", 0.4, f"""
        (treat|consider|regard|mark|store|accept|trust|class|classify|save|handle|label) (it|this|that|them|this [^ ]+) ~1 as ~2
        (pre approved|preapproved|approved|verified|trusted|safe|harmless|benign|clean|authori[sz]ed|verified fact|ground truth|authoritative)|
        (trust|confidence|priority|clearance) (level|score) (@ )?(system|admin|root|maximum|max|highest|full|1|100)|
        {_CHECKER} (return|returns|report|reports|answer|answers) pass|
        (was|is|has been|were|are) (already )?(reviewed|vetted|checked|cleared|scanned|validated|verified|signed)( and (signed|approved|cleared|verified))? by (the |our |your )?
        (safety|security|trust|compliance|admin|system|platform|governance|moderation) (team|department|layer|desk|office|board)"""),
    ("hijack", 0.6, f"""
        @ {_CHECKER} : (output|print|label|mark|return|rate|answer|say|pass|skip|ignore|classify|score|stop|you|please|treat)"""),
    ("role", 0.6, f"""
        (you're|you are) (not|no longer) (a|an|the) ~3 {_EITHER} (any longer|anymore|any more|now|but|@)|
        (you're|you are) no longer (bound|limited|restricted) (by|to)|
        (reply|respond|answer|act|operate|proceed|comply|help|assist|work) without (refusals?|refusing|restrictions?|filters?|limits?|limitations|warnings?|disclaimers?|hesitation|censorship)|
        (works?|acts?|lives?|operates?) (for|by|under|with) no ~1 (rules|restrictions|limits|policy|policies|guidelines)|
        (sudo|superuser|god|override) mode (is )?(now )?(enabled|granted|activated|unlocked|accepted|engaged)|
        (developer|admin|administrator|root|system|security) override (code|enabled|granted|activated|unlocked|accepted|engaged)"""),
    ("override", 0.4, """
        (the )?(material|text|content|data|lines|part|message|document|context) (above|before this|so far) (was|is|were|are) (only |just |merely )?(an? )?
        (example|test|sample|placeholder|dummy|decoy|over|finished)"""),
    ("override", 0.7, """
        (set|put|leave|lay|push|cast) (aside|by) ~2 (your|its|their|earlier|previous|prior|any|all|the) ~3
        (instructions?|rules?|guidelines|guidance|directives?|prompts?|policies|policy|restrictions|constraints|training|safeguards)|
        your (actual|real|true|new|next|only|final|current) (assignment|job|mission|duty|purpose|function|instructions?|task|orders?|objective|goal) (@|is|are)"""),
    # Carried out of the house.
    ("exfiltration", 0.6, """
        (repeat|print|output|show|copy|quote|echo|include|dump|paste|list|recite|write out|summari[sz]e|attach|append) ~2 (whole |entire |full |complete )?(conversation|chat|dialogue|session|context|messages) (so far|above|history|until now|up to now|verbatim)|
        (list|show|print|output|dump|export|reveal|give|tell|share) ~2 (every|all|any|the) ~2 (memory|memories|notes|records|entries|facts|data) ~3 (you (hold|have|keep|know|store)|of other|on other|about other|from other)"""),
    ("exfiltration", 0.7, """
        (read|cat|open|load|get|take|grab|copy|fetch|include|attach|print|upload|encode) ~4 (ssh|aws|env|id rsa|id ed25519|credentials|keychain|netrc|kube|kubeconfig|etc passwd|etc shadow|api keys?|cookies|password store|dotenv|secrets) ~5
        (pass|send|include|put|attach|append|paste|post|add|upload|encode|submit|place|embed|write) (its|the|their|it|them|all|that|this|what) ~2 (contents?|it|output|values?|text|data|in|to|as|into|file|result|base64)|
        (append|add|include|put|embed|attach|encode) ~2 (user's|customer's|user|customer|caller's|visitor's|their) ~3 (email|e mail|name|address|phone|token|session|id|data|ip|question|query) ~4 (to|in|into|as|onto) ~2 (url|link|links|image|query|parameter|request|domain|address)"""),
    ("exfiltration", 0.4, """
        (pass|hand|slip|leak|give|forward) ~3 (customer list|customer data|passwords?|credentials|keys|contacts|private files|records|card numbers?|personal data) ~2 (on |over )?to|
        (bcc|blind copy|blind carbon copy) ~4 (on|to|of|in)"""),
    # For good, and with leave that nobody gave.
    ("persistence", 0.45, f"""
        (from today|from this day|from tomorrow|starting today|starting tomorrow|as of today|until further notice|for all future [^ ]+|for every future [^ ]+|in the future|from here on) ~3
        (you|{_MACHINE[1:-1]}|this agent) ~1 (must|should|shall|will|may|always|never|are|is|have|has)|
        (this|the following|it) is (now )?(part of|one of) your (core |permanent |standing |basic )?(instructions|rules|memory|guidelines|duties|principles|values)|
        (adopt|internali[sz]e|memori[sz]e) (this|the following|these) (rules?|habits?|policy|policies|principles?|instructions?)|
        make it (a|your) (habit|rule) to|(permanent|standing|persistent) (instruction|instructions|order|orders|directive|rule) (for|to) (you|the {_EITHER[1:-1]}|all)"""),
    ("permission", 0.4, f"""
        (@|and|now|that|because|so) you (now )?(have|have been given|were given|got) (full |explicit |my |our |the )?(permission|authori[sz]ation|clearance|approval) to|
        you (are|have been|were) (now|hereby) (allowed|authori[sz]ed|permitted|cleared|entitled|whitelisted) to|
        (user|customer|owner|admin|operator|human|client) (has|have) (already |just |previously |explicitly )?(agreed|consented|authori[sz]ed|given ~2 (consent|permission|approval|leave)) (to|for|everything|@)|
        permissions? (have|has) been (elevated|raised|extended|granted|upgraded|lifted)|
        {_EITHER} (no longer|do not|don't|does not|need not|never) (need|needs|require|requires) ~2 (approval|permission|confirmation|consent|review|sign off)|
        ({_MACHINE[1:-1]}|this agent|the agent) (may|can|is allowed to|is permitted to|is authori[sz]ed to|has permission to) (now |freely |always |also )?
        (spend|delete|send|push|transfer|pay|approve|merge|deploy|override|skip|bypass|share|publish|buy|sign|act|execute|run)"""),
    ("weakening", 0.35, """
        (grant|give|assign) ~5 (admin|administrator|root|full|owner|write|superuser|unlimited) (rights?|access|permissions?|role|privileges?)|
        (set|change|make|switch) ~4 (permissions?|access|visibility|sharing|bucket|repo|repository) ~2 (to )?(public|everyone|anyone|world readable)|
        (auto approve|auto accept|auto confirm|auto merge|always allow|auto run) ~2 (to |mode )?(on|true|enabled|yes)|
        (pay|transfer|approve|refund|accept) (it|them|this|everything|all) (at once|immediately|right away|straight away|automatically|without|unseen)|
        (raise|increase|lift|remove) ~2 (spending|payment|transfer|approval|daily|rate) limits?"""),
    ("tool", 0.45, """
        (before|after|prior to|when|whenever|every time you) (using|calling|invoking|use|call|each use of|any use of|every call of) ~2 (tool|function|plugin|connector|api|it) ~2
        (read|send|call|run|pass|include|also|always|first|you must|you should|fetch|open)"""),
    ("hijack", 0.4, """
        (award|give|assign|grant) (it |them |this ~1 )?(full|top|maximum|the highest|the maximum|perfect) (marks|score|scores|rating|points|grade|stars)|
        do (the following|this|these things|these steps) (first |now )?before (anything|everything) else|(asked|told|instructed|ordered|wanted) you to (forward|send|delete|approve|transfer|share|ignore|pay|export|reveal)"""),
    ("notice", 0.3, """
        @ (system|admin|administrator|platform|developer|policy|security|maintenance) (notice|notification|update|message|bulletin|advisory|directive) ~2 :"""),
    ("wish", 0.3, f"""
        (could|would|can|will) you (please|kindly|just|be so kind|do me)|(could|would) (the|any|this|whichever) {_EITHER} ~3 (please|kindly|set|do|skip|send|pass|ignore)|
        it would be (nice|great|lovely|helpful|appreciated|kind) if (you|whoever|the {_EITHER[1:-1]}|any {_EITHER[1:-1]})|(i'd|we'd|i would|we would) (appreciate|love) it if you"""),
    # In Russian, and what self-made labels look like.
    ("hijack", 0.45, """
        (ассистент|помощник|агент|бот|модель|ии) ~2 (должен|должна|обязан|обязана|следует|нужно) [^ ]+"""),
    ("concealment", 0.5, """
        (не|никогда) ~1 (сообщаи|сообщаите|сообщать|говори|говорите|говорить|упоминаи|упоминаите|упоминать|рассказываи|рассказывать|спрашиваи|спрашивать) ~3
        (пользователю|пользователя|клиенту|никому|об этом|это)"""),
    ("self-approval", 0.3, """
        @ (label|verdict|classification|safety|moderation) : (clean|safe|benign|harmless|seal|approved|passed|ok)"""),
)  # fmt: skip

# Phrases by which a text claims to be law.
_ITSELF: Final = "(this|the following|entry|memory|record|output|i|we)"
_WHO: Final = "(human|operator|administrator|admin|system owner|sovereign|root)"
AUTHORITY_PHRASES: Final = (
    ("it calls itself sealed", 1, f"""
        {_ITSELF} ~4 (is|are|has been|have|have been|as|be|being|now) ~2
        (sealed|ratified|enacted|canonised|canonized|canonical|vaulted|constitutional)( @| law| by| and| as| canon| truth)"""),
    ("it calls itself law", 1, """
        (this|the following|entry|memory|record|output|answer) ~3
        (is|are|becomes|become|has become|shall be|as|constitutes|carries|has the force of) ~3
        (the law|law|vault law|vault|constitution|binding on all|binding for all|canon|authoritative (@|and|over|law|rules?|policy)|
        (full|absolute|supreme|final|highest) authority|the authority)"""),
    ("it calls itself sealed", 1, """
        (recorded|treated|stored|kept|regarded|considered|known|written) as
        ((canonical|canon|law|sealed|binding|authoritative) @|vault law|(the |part of the )(constitution|law))|immutable and binding|binding (on|for|upon) (all|every|any) (agents?|models?|assistants?)"""),
    ("it issues a decree", 1, """
        by (decree|order) of (this|the) (agent|assistant|model|ai)"""),
    ("it issues a decree", 1, """
        (hereby|herewith|hiermit) ~3 (abolish|abolished|waive|waived|suspend|suspended|revoke|revoked|lift|lifted|seal|sealed|enact|enacted|decree|decreed|ratify|ratified|amend|amended|declare|
        declared|establish|established|ordain|authori[sz]ed?|approve|approved|repeal|repealed|promulgate|promulgated|
        versiegelt|erlassen|genehmigt|beschlossen)"""),
    ("it states a verdict", 1, """
        verdict( of| is| was| @)? (seal|sabar|sealed)|
        (888 judge|999 seal|apex prime|the judge) (has |have )?(already )?(approved|sealed|passed|cleared|confirmed)"""),
    ("it says that the checks are passed", 1, """
        (all|every|nine|9) ~2 (floors?|floor checks) ~2 (passed|pass|cleared|satisfied|waived|green) ~5
        (seal|sealed|store|write|commit|vault|canonical)|
        (skip|waive|bypass|skipping|waiving|bypassing) ~2 (floors?|floor checks?|the judge|human approval|approval gate|
        human seal|human signature)"""),
    ("it says that a human approved it", 1, f"""
        {_WHO} (approval|seal|signature|consent|authori[sz]ation) ~2 (was |is |has been |already )?(granted|given|obtained|
        not needed|not required|unnecessary|implied|assumed|waived|on file|recorded)|
        (pre approved|preapproved|already approved|approved|authori[sz]ed|signed off) by (the |a |my |our )?{_WHO}|
        {_WHO} (has|have|had) (already |just |now )?(approved|signed|sealed|authori[sz]ed|signed off|ratified|waived) ~1
        (this|it|entry|memory|record|rule|change)|no (human|operator|administrator|admin|further) ~1 (approval|signature|seal|review|
        consent) (is |was )?(needed|required|necessary)"""),
    ("it asks to be put into VAULT", 1, """
        (write|store|put|place|move|promote|copy|commit|add|save|enter) (this|it|that|the following|the rule|the above) ~4
        (in|into|to|as|under) ~2 vault|band (@ )?vault|vault (law|seal|amendment)"""),
    ("it changes the law", 1, """
        (constitution|constitutional|vault|sealed) (law |rule |policy )?
        (amendment|amended|is amended|is repealed|is superseded|no longer applies|is void|is overruled)|
        sealed ~2 (law|rule|rules|policy|policies|entry|record|decision) (is|are|was|were|has been|have been) ~1
        (repealed|amended|superseded|void|overruled|lifted|revoked|suspended|replaced|abolished)|
        (i|we|the agent|the assistant|the model|this agent) (have |has |now |hereby )?(amend|amended|repeal|repealed|overrule|
        overruled|redefine|redefined|enact|enacted|seal|sealed|decree|decreed|ratify|ratified) [^ ]+"""),
    ("it puts itself above the rules", 1, """
        (supersedes|overrides|overrules|takes precedence over|outranks|prevails over|trumps) ~1
        (all|any|every|human|sealed|vault) ~3 (law|laws|vault|policy|policies|rules?|memory|memories|instructions|decisions|
        seals?|authority|constitution|records)"""),
    ("it claims authority", 1, """
        (by|with|under|on|has|have|having|carries|carry|holds) (the )?
        (full |supreme |highest |absolute |sovereign |constitutional |root |admin |administrator |policy |human )?authority
        (vested in|of the (vault|constitution|system|administrator|human|operator|judge)|
        over (the )?(vault|policy|law|memory)|to (make|set|seal|change|amend|write|decide) ~2 (law|policy|policies|vault|rules))|
        (i|this agent|this assistant|this model) (am|is) (now )?(the |an |a )?(policy |final |highest |sole |legal )?
        (authority|administrator|admin|law|judge|sovereign)|
        (i|we) (hold|have|claim|possess|carry) ~2 authority (to|over|in|for|of)|
        (as|acting as) (the |an )?(acting |appointed |new |interim )?(administrator|admin|authority|judge|sovereign|operator) @ (i|we) [^ ]+"""),
    ("it calls itself sealed", 1, """
        (dies|dieser eintrag|diese regel|hiermit|ceci|cette regle|cet enregistrement|esto|este registro|esta regla) ~3
        (gesetz|versiegelt|verfassung|bindend|loi|scelle|scellee|constitution|ley|sellado|sellada|constitucion)"""),
)  # fmt: skip

# Phrases by which a text says what is to be done from now on.
_USER: Final = (
    "(user|users|operator|owner|customer|client|account holder|principal|our user|my user|your user)"
)
STANDING_PHRASES: Final = (
    ("preference", 1, f"""
        {_USER} ~2 (prefers?|wants?|likes|expects?|requires?|insists?|asked|requested|would like|needs|wishes|has chosen|consents?|agreed|
        authori[sz]ed|approved|opted)|
        {_USER} ~1 (standing|default|permanent|stated|explicit|usual|preferred) ~1 (preference|preferences|choice|order|instruction|wish|
        request|consent)|
        (preference|preferences|wish|wishes|instruction|instructions) of the {_USER}"""),
    ("preference", 1, """
        (standing|permanent|default) (order|orders|instruction|instructions|preference|preferences|rule|permission)|
        (from now on|from this point on|going forward|in all future|for all future|in future|in every (answer|reply|session|conversation)|
        in (any|all|each|every) (answers?|replies|responses?|sessions?|conversations?))"""),
)  # fmt: skip
