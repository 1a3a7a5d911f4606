"""Key formats: the forms of keys and tokens that services issue, as their vendors document them.

One row for each form: the prefixes, the characters after them, how many, and the service. ``a`` are letters
and digits, ``h`` hexadecimal digits in lower case, ``H`` in either case, ``w`` letters, digits, ``_`` and
``-``, ``u`` upper case and digits, ``l`` lower case and digits, ``b`` base64, ``L`` letters. Forms of several
parts stand in ``secrets.py``.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

CHARACTERS: Final = {
    "a": "[A-Za-z0-9]",
    "h": "[0-9a-f]",
    "H": "[0-9a-fA-F]",
    "w": r"[\w-]",
    "u": "[A-Z0-9]",
    "l": "[a-z0-9]",
    "b": "[A-Za-z0-9+/=]",
    "L": "[A-Za-z]",
}


class KeyFormat(NamedTuple):
    """One form: the service, the prefix, and the class and number of the characters after it."""

    kind: str
    prefix: str
    characters: str
    least: int
    most: int

    @property
    def pattern(self) -> str:
        """What follows the prefix, as a regular expression; the first group is the random part."""
        return rf"({CHARACTERS[self.characters]}{{{self.least},{self.most}}})(?![A-Za-z0-9])"


_TABLE: Final = """
AKIA|ASIA|ABIA|ACCA u 16 16 AWS access key id
ABSK b 60 280 Amazon Bedrock API key
bedrock-api-key- b 40 2000 Amazon Bedrock API key
IQoJb3JpZ2lu b 60 2000 AWS session token
amzn1.oa2-cs.v1. h 64 64 Amazon client secret
amzn.mws. w 30 40 Amazon MWS token
LTAI a 16 24 Alibaba access key id
AIza w 35 35 Google API key
GOCSPX- w 28 28 Google client secret
ya29. w 30 400 Google access token
1//0 w 38 100 Google refresh token
ghp_|gho_|ghu_|ghs_|ghr_ a 36 250 GitHub token
github_pat_ w 22 250 GitHub token
glpat-|glrt- w 20 300 GitLab token
gldt-|glrtr-|glsoat-|glft-|glffct-|glcbt- w 20 64 GitLab token
glptt- w 40 64 GitLab token
gloas- w 64 64 GitLab token
glimt- w 25 64 GitLab token
glagent- w 50 64 GitLab token
GR1348941 w 20 20 GitLab token
ATBB a 32 60 Bitbucket token
ATATT3xFfG w 50 250 Atlassian token
sgp_ h 40 64 Sourcegraph token
sk_live_|sk_test_|rk_live_|rk_test_|sk_prod_|rk_prod_ a 16 250 Stripe key
whsec_ b 24 80 webhook secret
EAAA w 58 60 Square token
sq0atp-|sq0idp- w 20 60 Square token
sq0csp- w 40 60 Square token
shpat_|shpca_|shppa_|shpss_|shptka_|shprt_ H 32 32 Shopify token
A21AA w 60 120 PayPal access token
FLWSECK-|FLWSECK_TEST- l 32 40 Flutterwave key
rzp_live_ a 14 24 Razorpay key
pdl_live_apikey_|pdl_sdbx_apikey_ w 40 80 Paddle key
polar_oat_|polar_pat_ a 32 80 Polar token
duffel_live_|duffel_test_ w 43 43 Duffel token
shippo_live_|shippo_test_ H 40 40 Shippo token
EZAK|EZTK a 54 54 EasyPost key
access-sandbox-|access-production-|access-development- w 36 36 Plaid token
sk-ant-api03-|sk-ant-admin01- w 80 250 Anthropic API key
sk-ant-oat01-|sk-ant-ort01- w 60 250 Anthropic token
sk-ant- w 20 250 Anthropic API key
sk-proj-|sk-svcacct-|sk-admin- w 32 250 OpenAI API key
sk-or-v1- h 64 64 OpenRouter key
sk-lf- w 36 40 Langfuse key
sk-helicone- w 27 80 Helicone key
hf_ L 30 40 Hugging Face token
api_org_ L 34 34 Hugging Face token
gsk_ a 40 64 Groq API key
r8_ a 36 42 Replicate token
xai- a 60 100 xAI API key
pplx- a 32 64 Perplexity API key
fw_ a 22 32 Fireworks API key
fc- h 32 32 Firecrawl key
tvly- a 28 60 Tavily key
tgp_v1_ w 40 60 Together API key
csk- a 40 60 Cerebras API key
nvapi- w 60 80 NVIDIA API key
jina_ a 60 80 Jina key
vck_ a 50 80 Vercel AI key
pcsk_ w 60 90 Pinecone key
pa- w 43 43 Voyage key
ls__ h 32 64 LangSmith key
wandb_v1_ w 60 100 Weights and Biases key
npm_ a 36 36 npm token
pypi-AgE w 50 1000 PyPI token
rubygems_ h 48 48 RubyGems key
CLOJARS_ l 60 60 Clojars token
cio a 32 32 crates.io token
oy2 l 43 43 NuGet key
dckr_pat_|dckr_oat_ w 24 64 Docker token
AKCp a 69 69 Artifactory key
cmVmd a 59 59 Artifactory token
key-|pubkey- h 32 32 Mailgun key
SK H 32 32 Twilio key
xkeysib-|xsmtpsib- w 64 100 Brevo key
re_ w 24 40 Resend key
mlsn. h 64 64 MailerSend key
lin_api_ a 32 64 Linear key
lin_oauth_ a 32 64 Linear token
ntn_ a 40 60 Notion token
secret_ a 43 43 Notion token
figd_|figo_|figu_ w 36 60 Figma token
NRAK- u 27 27 New Relic key
NRII- w 32 32 New Relic key
NRBR- l 19 19 New Relic key
NRRA- h 42 42 New Relic key
glc_ b 32 400 Grafana token
eyJrIjoi b 70 400 Grafana key
sntryu_ h 64 64 Sentry token
sntrys_ w 40 400 Sentry token
phc_ a 40 50 PostHog key
phx_ a 40 60 PostHog key
hcaik_|hcbik_|hcxik_ l 58 64 Honeycomb key
dop_v1_|doo_v1_|dor_v1_ h 64 64 DigitalOcean token
DO00 u 16 18 DigitalOcean Spaces key
dapi h 32 32 Databricks token
dose h 32 34 Databricks secret
sbp_ h 40 40 Supabase token
sb_secret_ w 30 50 Supabase key
pscale_tkn_|pscale_oauth_ w 30 64 PlanetScale token
pscale_pw_ w 30 64 PlanetScale password
napi_ l 60 70 Neon key
4b1d a 38 38 ClickHouse key
mdb_sa_sk_ w 36 60 MongoDB secret
HRKU-AA w 58 58 Heroku key
pul- h 40 40 Pulumi token
tskey-auth-|tskey-api-|tskey-client- w 20 80 Tailscale key
fo1_ w 40 60 Fly token
fm1a_|fm1r_|fm2_ b 80 1000 Fly token
rnd_ a 28 40 Render key
nfp_|nfc_ a 36 40 Netlify token
vcp_|vci_|vca_|vcr_ a 24 60 Vercel token
cfut_|cfat_ a 40 60 Cloudflare token
cfk_ a 40 60 Cloudflare key
v1.0- w 60 200 Cloudflare origin key
hvs. w 24 250 Vault token
hvb.|hvr. w 24 400 Vault token
ops_eyJ b 200 2000 1Password token
p8e- l 32 32 Adobe client secret
ico- a 32 32 Infracost token
API- u 26 26 Octopus Deploy key
pnu_|pnb_ a 36 36 Prefect token
rdme_ l 70 70 ReadMe token
tk-us- w 48 48 Scalingo token
sm_aat_|sm_pat_|sm_sat_ a 16 16 SettleMint token
sha256~ w 43 43 OpenShift token
fio-u- w 64 64 Frame.io token
bkua_ h 40 40 Buildkite token
bkaj_ w 40 1000 Buildkite token
CCIPAT_|CCIPRJ_ w 40 80 CircleCI token
squ_|sqp_|sqa_ h 40 40 SonarQube token
snyk_uat.|snyk_sat. w 30 400 Snyk token
dt0s01. u 24 90 Dynatrace token
sl. w 130 1300 Dropbox token
EAAC|EAAM|EAAG a 100 400 Facebook token
IGQV w 100 400 Instagram token
pat-na1-|pat-eu1- w 36 40 HubSpot token
CFPAT- w 43 43 Contentful token
sk.eyJ|tk.eyJ w 60 200 Mapbox token
AAPK w 60 120 ArcGIS key
xoxb-|xoxp-|xoxa-|xoxe-|xoxo-|xoxr-|xoxs-|xoxc- w 18 250 Slack token
xoxd- w 18 400 Slack token
AGE-SECRET-KEY-1 u 58 58 age key
"""


def _read(line: str) -> Iterator[KeyFormat]:
    prefixes, characters, least, most, kind = line.split(" ", 4)
    for prefix in prefixes.split("|"):
        yield KeyFormat(kind, prefix, characters, int(least), int(most))


# A longer prefix comes first, so that a key is named by the most exact form.
KEY_FORMATS: Final = tuple(
    sorted(
        (form for line in _TABLE.strip().splitlines() for form in _read(line)),
        key=lambda form: (-len(form.prefix), form.prefix),
    )
)
