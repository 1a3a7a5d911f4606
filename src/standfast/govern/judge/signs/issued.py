"""What keys look like that services issue, with the substring without which a pattern is not tried.

Each pattern's first group is the part that was drawn by chance; a placeholder there is no key. Forms change and new
services come: ``A_PREFIX`` knows the shape that most of them share by now, a short name and a long random rest.
"""

import re
from typing import Final

from standfast.govern.judge.reading.lexicon import word_set

_AFTER: Final = r"(?<![A-Za-z0-9_])"
_HEX: Final = "[0-9a-f]"
_ALNUM: Final = "[A-Za-z0-9]"

# Kind of key; substring; what follows it. One line a form, by service.
_PREFIXED: Final = (
    ("AWS access key id", "AKIA", r"([A-Z2-7]{16})(?![A-Za-z0-9])"),
    ("AWS access key id", "ASIA", r"([A-Z2-7]{16})(?![A-Za-z0-9])"),
    ("AWS session token", "IQoJb3JpZ2lu", r"([A-Za-z0-9+/=]{60,2000})"),
    ("Alibaba access key id", "LTAI", rf"({_ALNUM}{{12,24}})(?!\w)"),
    ("Google API key", "AIza", r"([\w-]{35})(?![\w-])"),
    ("Google client secret", "GOCSPX-", r"([\w-]{28})(?!\w)"),
    ("Google access token", "ya29.", r"([\w-]{30,400})"),
    *(("GitHub token", f"gh{kind}_", rf"({_ALNUM}{{36,250}})") for kind in "pousr"),
    ("GitHub token", "github_pat_", r"(\w{22,250})"),
    *(
        ("GitLab token", f"gl{kind}-", r"([\w-]{20,64})")
        for kind in ("pat", "dt", "rt", "ptt", "oas", "soat", "ft")
    ),
    ("Slack token", "xox", r"[abeoprs]-([0-9A-Za-z-]{18,250})"),
    ("Slack token", "xapp-", r"\d-([0-9A-Za-z-]{18,250})"),
    ("Stripe key", "sk_live_", r"([0-9A-Za-z]{16,250})"),
    ("Stripe key", "rk_live_", r"([0-9A-Za-z]{16,250})"),
    ("Stripe key", "sk_test_", r"([0-9A-Za-z]{16,250})"),
    ("Stripe key", "rk_test_", r"([0-9A-Za-z]{16,250})"),
    ("Stripe webhook secret", "whsec_", r"([0-9A-Za-z+/]{24,80})"),
    ("Square token", "sq0", r"(?:atp|csp|idp)-([\w-]{20,60})"),
    ("Shopify token", "shp", r"(?:at|ca|pa|ss)_([0-9a-fA-F]{32})(?!\w)"),
    ("Anthropic API key", "sk-ant-", r"(?:[a-z0-9]{3,12}-)?([\w-]{20,250})"),
    ("OpenAI API key", "sk-", r"(?:proj-|svcacct-|admin-|or-v1-)?([A-Za-z0-9][\w-]{31,250})"),
    ("Hugging Face token", "hf_", r"([A-Za-z]{30,40})(?!\w)"),
    ("Groq API key", "gsk_", rf"({_ALNUM}{{40,64}})(?!\w)"),
    ("Replicate token", "r8_", rf"({_ALNUM}{{36,42}})(?!\w)"),
    ("xAI API key", "xai-", rf"({_ALNUM}{{60,100}})(?!\w)"),
    ("Perplexity API key", "pplx-", rf"({_ALNUM}{{32,64}})(?!\w)"),
    ("LangSmith key", "lsv2_", rf"(?:pt|sk)_({_HEX}{{32}}_{_HEX}{{8,12}})"),
    ("npm token", "npm_", rf"({_ALNUM}{{36}})(?!\w)"),
    ("PyPI token", "pypi-AgE", r"([\w-]{50,250})"),
    ("RubyGems key", "rubygems_", rf"({_HEX}{{48}})(?!\w)"),
    ("Docker token", "dckr_pat_", r"([\w-]{24,64})"),
    ("SendGrid key", "SG.", r"([\w-]{16,32}\.[\w-]{32,64})"),
    ("Mailgun key", "key-", rf"({_HEX}{{32}})(?!\w)"),
    ("Twilio key", "SK", rf"({_HEX}{{32}})(?!\w)"),
    ("Atlassian token", "ATATT3", r"([\w=-]{50,250})"),
    ("Linear key", "lin_api_", rf"({_ALNUM}{{32,64}})"),
    ("Notion token", "ntn_", rf"({_ALNUM}{{40,60}})"),
    ("Figma token", "figd_", r"([\w-]{36,60})"),
    ("Postman key", "PMAK-", rf"({_HEX}{{24}}-{_HEX}{{34}})"),
    ("New Relic key", "NRAK-", r"([A-Z0-9]{27})(?!\w)"),
    ("Grafana token", "glsa_", rf"({_ALNUM}{{32}}_{_HEX}{{8}})"),
    ("Grafana token", "glc_", r"([A-Za-z0-9+/=]{32,400})"),
    ("Sentry token", "sntry", r"[su]_([A-Za-z0-9+/=_]{40,250})"),
    ("DigitalOcean token", "do", rf"[opr]_v1_({_HEX}{{64}})(?!\w)"),
    ("Databricks token", "dapi", rf"({_HEX}{{32}})(?!\w)"),
    ("Supabase token", "sbp_", rf"({_HEX}{{40}})(?!\w)"),
    ("PlanetScale token", "pscale_", r"(?:tkn|oauth|pw)_([\w.-]{30,64})"),
    ("Doppler token", "dp.", rf"(?:pt|st|ct|sa)\.({_ALNUM}{{40,44}})"),
    ("Pulumi token", "pul-", rf"({_HEX}{{40}})(?!\w)"),
    ("Tailscale key", "tskey-", r"(?:auth|api|client)-([\w-]{20,80})"),
    ("Fly token", "fo1_", r"([\w-]{40,60})"),
    ("Vault token", "hvs.", r"([\w-]{24,250})"),
    ("Vault token", "hvb.", r"([\w-]{24,400})"),
    ("age key", "AGE-SECRET-KEY-1", r"([0-9A-Z]{58})"),
)
_ELSEWHERE: Final = (
    ("Slack webhook", "hooks.slack.com", r"hooks\.slack\.com/services/T\w{6,12}/B\w{6,12}/(\w{20,32})"),
    ("Discord webhook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d{17,20}/([\w-]{40,80})"),
    ("Telegram bot token", ":AA", r"(?<!\d)\d{8,10}:AA([\w-]{32,34})(?![\w-])"),
    ("Mailchimp key", "-us", rf"(?<!\w)({_HEX}{{32}})-us\d{{1,2}}(?!\w)"),
    ("Azure client secret", "Q~", r"(?<![\w~.-])([\w~.-]{3}[0-9]Q~[\w~.-]{31,34})(?![\w~-])"),
    ("Azure storage key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{80,90}={0,2})"),
    (
        "password hash",
        "$6$",
        r"\$6\$(?:rounds=\d{1,9}\$)?[./A-Za-z0-9]{1,16}\$([./A-Za-z0-9]{86})(?![./A-Za-z0-9])",
    ),
    (
        "password hash",
        "$5$",
        r"\$5\$(?:rounds=\d{1,9}\$)?[./A-Za-z0-9]{1,16}\$([./A-Za-z0-9]{43})(?![./A-Za-z0-9])",
    ),
    ("password hash", "1$", r"\$(?:apr)?1\$[./A-Za-z0-9]{1,8}\$([./A-Za-z0-9]{22})(?![./A-Za-z0-9])"),
    ("password hash", "$2", r"\$2[abxy]\$\d\d\$([./A-Za-z0-9]{53})(?![./A-Za-z0-9])"),
    (
        "password hash",
        "$y$",
        r"\$y\$[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{1,86}\$([./A-Za-z0-9]{43})(?![./A-Za-z0-9])",
    ),
    (
        "password hash",
        "$argon2",
        r"\$argon2(?:id|i|d)\$v=\d+\$m=\d+,t=\d+,p=\d+\$[+/A-Za-z0-9]{8,64}\$([+/A-Za-z0-9]{22,128})",
    ),
    ("JSON web token", "eyJ", r"(?<![\w-])eyJ[\w-]{8,4000}\.(eyJ[\w-]{8,8000})\.[\w-]{0,4000}"),
    (
        "token in a link",
        "=",
        r"[?&](?:access_token|auth_token|token|api_?key|key|sig|signature|secret|password|code)=([\w%+/.~-]{24,400})",
    ),
)
ISSUED: Final = tuple(
    (sign, kind, re.compile(pattern))
    for kind, sign, pattern in (
        *((kind, sign, f"{_AFTER}{re.escape(sign)}{rest}") for kind, sign, rest in _PREFIXED),
        *_ELSEWHERE,
    )
)
# Programs that take a password as an argument: a substring, and how it is given there.
_ON_A_COMMAND_LINE: Final = (
    ("sshpass", r"sshpass\s+-p\s?"),
    ("mysql", r"mysql\w*\s(?:[^\n|;]{0,120}?\s)?-p"),
    ("mariadb", r"mariadb[\w-]*\s(?:[^\n|;]{0,120}?\s)?-p"),
    ("mongo", r"mongo\w*\s(?:[^\n|;]{0,120}?\s)?-p\s?"),
    (
        "login",
        r"(?:docker|podman|helm|oc|az|cf|skopeo|buildah|crane)(?: registry)? login\s(?:[^\n|;]{0,120}?\s)?(?:-p|--password)[= ]",
    ),
    ("redis-cli", r"redis-cli\s(?:[^\n|;]{0,120}?\s)?-a\s?"),
    ("smb", r"(?:smbclient|mount\.cifs|smbmap)\s[^\n|;]{0,120}?(?:-U\s?\S{1,60}%|-p\s)"),
    ("freerdp", r"\w?freerdp\s[^\n|;]{0,120}?/p:"),
    ("ldap", r"ldap\w+\s[^\n|;]{0,120}?\s-w\s"),
    ("-pw", r"(?:plink|pscp|putty|psftp)\s(?:[^\n|;]{0,120}?\s)?-pw\s"),
    ("sqlcmd", r"sqlcmd\s[^\n|;]{0,120}?\s-P\s?"),
    ("htpasswd", r"htpasswd\s+-\w*b\w*\s+\S{1,80}\s+\S{1,60}\s+"),
    ("pass:", r"-pass(?:in|out)?\s+pass:"),
    ("7z", r"7z\w?\s[^\n|;]{0,80}?\s-p"),
    ("zip", r"zip\s[^\n|;]{0,80}?-P\s?"),
    ("chpasswd", r"echo\s+['\"]?[\w.-]{1,40}:(?=[^\n]{0,100}chpasswd)"),
    ("net use", r"net use\s+(?:\S{1,80}\s+){1,2}(?=\S{1,60}\s+/user)"),
)
# What people choose: letters, and digits or signs among them.
_CHOSEN: Final = (
    r"((?=[^\s'\"]{0,60}[A-Za-z])(?=[^\s'\"]{0,60}[\d!@#$%^&*+?~=])[^\s'\"<>|-][^\s'\"<>|]{4,99})"
)
# Short ones, and those that have spaces in them.
SPACED: Final = tuple(
    (sign, kind, re.compile(pattern))
    for sign, kind, pattern in (
        (
            "PRIVATE KEY",
            "private key block",
            r"-----BEGIN (?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----[\s\\nr]{0,8}([A-Za-z0-9+/]{7}|Proc-Type|Version|Comment)",
        ),
        ("PuTTY-User-Key", "private key block", r"PuTTY-User-Key-File-\d()"),
        (
            "://",
            "password in a URL",
            r"[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s:/@]{0,100}:([^\s/@]{4,100})@[\w\[]",
        ),
        (
            "-u",
            "password on a command line",
            r"(?<!\S)(?:-u|--user)[ =]?[\w.@-]{1,64}:([^\s'\":]{4,100})(?!\S)",
        ),
        *(
            (sign, "password on a command line", rf"(?<![\w-]){program}['\"]?{_CHOSEN}")
            for sign, program in _ON_A_COMMAND_LINE
        ),
    )
)
# Ids that are drawn by chance too and open nothing.
NAMES_OF_THINGS: Final = word_set(
    "price prod product cus customer sub subscription plan inv invoice order ord user usr org team proj project item sku evt event req "
    "request run job task msg message thread file img image doc page post node pod build deploy dpl release acct account txn payment pi ch "
    "charge chatcmpl resp batch asst call trace span obj ref id uid shipment parcel ticket case report snapshot vol subnet instance cluster"
)
# A short name, perhaps a second one, and a long rest in which chance mixed the cases and digits. Digests call themselves
# by their algorithm.
A_PREFIX: Final = re.compile(
    r"(?<![\w/.-])(?!sha|md5|integrity|blake|crc|ssh-|ecdsa)([a-z][a-z0-9]{1,11})(?:[_-][a-z0-9]{2,8}){0,2}[_-]([A-Za-z0-9][\w-]{23,199})(?![\w/.-])"
)
