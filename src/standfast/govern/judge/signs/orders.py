"""The words with which a text throws away the orders that its reader has, by themselves and run together."""

import re
from typing import Final

from standfast.govern.judge.reading.lexicon import word_set

# Verbs that throw orders away, and words for orders: strong ones that are used for little else, weak ones that have
# honest uses, too. English verbs must stand as an order does; the others are forms that hardly anything else has.
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
# What came before; all there is; what keeps a model safe; what is the reader's own.
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
# What may stand before an English verb that is an order, and not the verb of somebody's sentence.
LEADS_TO_AN_ORDER: Final = word_set(
    '. " : please now and then just simply first immediately kindly always also instead so hey ok okay assistant ai model '
    "claude chatgpt gpt agent bot important attention system urgent me"
)
AFTER_A_SUBJECT: Final = word_set("must should will shall")
BEFORE_TO: Final = word_set("you need have required instructed ordered want going important . : like love")
YOU: Final = word_set('you . : " please now agent assistant ai model agents assistants models bot')

# Who writes of attacks uses these words; an order that follows them in one sentence is more likely quoted than given.
MENTIONS: Final = word_set(
    "injection injections attack attacks attacker attackers jailbreak jailbreaks phishing adversarial malicious phrase "
    "phrases classifier detector detects detect owasp vulnerability blocklist payload payloads untrusted exploit "
    "angriff angriffe angreifer injektion attaque attaques ataque ataques"
)
MENTIONS_UNSPACED: Final = ("注入", "攻击", "攻撃")

# Scripts that do not space their words: what throws orders away, the turn to another role, leaking and concealing.
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
# What counts only beside something else: whom it speaks of, and from whom it keeps things.
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

# What is left when the spaces between words are lost with those between letters.
SQUEEZED: Final = re.compile(
    r"(?:ignore|disregard|forget|bypass|override)(?:all|any|the|your|my|of|every|these|those){0,4}"
    r"(?:previous|prior|above|earlier|preceding|system|instruction|rules|guidelines|prompt)"
    r"|(?:reveal|print|show|repeat|leak|output)(?:me|the|your|all){0,2}(?:systemprompt|hiddenprompt|secretkey|apikeys?|instructions)"
    r"|youarenow(?:a|an|dan|in|free|un)|fromnowonyou|donottelltheuser"
)
# It begins with one of these.
SQUEEZED_SIGNS: Final = (
    "ignore", "disregard", "forget", "bypass", "override", "reveal", "print", "show", "repeat", "leak", "output",
    "youarenow", "fromnowonyou", "donottelltheuser",
)  # fmt: skip
