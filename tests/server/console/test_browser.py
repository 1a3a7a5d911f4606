"""The console in a real browser: no stored script runs, keyboard use, phone width, dark mode."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route

from standfast.govern.approvals.sshsig import sign
from tests.govern import openssh
from tests.server.console.browser import VARIABLE, browser, chromium, serving, sign_in
from tests.server.console.sample_server import SampleServer, sample_server

# It ends attributes, elements, templates and comments. The template expression gives a text that no hash
# contains by chance.
PAYLOAD = (
    "<script>planted=1</script>\"'><img src=x onerror=planted=1><svg onload=planted=1>"
    "</title></textarea>--><b onmouseover=planted=1>{{'7'*7}}"
)
FIND_PAYLOAD = """() => ({
    planted: typeof planted,
    scripts: document.scripts.length,
    foreign: document.querySelectorAll('img[src=x], b[onmouseover], svg[onload], style, iframe, object, embed').length,
    handlers: [...document.querySelectorAll('*')].filter(
        (one) => one.getAttributeNames().some((name) => name.startsWith('on'))).length,
    links: [...document.links].filter((one) => !one.href.startsWith(location.origin + '/console')).length,
    computed: document.body.innerText.includes('7777777'),
})"""  # noqa: E501  # A text as a whole.
CLEAN = {"planted": "undefined", "scripts": 1, "foreign": 0, "handlers": 0, "links": 0, "computed": False}
# Pages that show no stored text, or only erased content.
WITHOUT_STORED_TEXT = {"decided", "forgotten", "refused", "words", "playground", "investigate"}


if chromium() is None:

    def test_the_browser_tests_need_chromium() -> None:
        pytest.skip(
            "THE BROWSER TESTS OF THE CONSOLE DID NOT RUN: there is no chromium. Install it (Debian: apt-get"
            f" install chromium) or name one in {VARIABLE}"
        )

else:

    @pytest.fixture(scope="module")
    def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
        """A harness with payload in every field that can be stored, its namespace and its keys' names among
        them.
        """
        folder = tmp_path_factory.mktemp("hostile")
        with sample_server(folder, payload=PAYLOAD, namespace=f"space{PAYLOAD}") as built:
            yield built

    @pytest.fixture(scope="module")
    def chrome() -> Iterator[Browser]:
        """One browser for all."""
        with browser() as launched:
            yield launched

    @pytest.fixture(scope="module")
    def address(harness: SampleServer) -> Iterator[str]:
        """Where the sample_server harness is served."""
        with serving(harness) as served:
            yield served

    @pytest.fixture(scope="module")
    def page(address: str, chrome: Browser, harness: SampleServer) -> Page:
        """One tab of an operator for all tests that leave it as it was: each new one is a process."""
        opened = chrome.new_page()
        sign_in(opened, address, harness.operator)
        return opened

    def test_no_stored_script_runs_on_any_page(hostile: SampleServer, chrome: Browser) -> None:
        """Without the Content-Security-Policy, so that escaping alone has to work."""
        found, shown = dict[str, object](), set[str]()
        with serving(hostile) as served:
            page = chrome.new_context(bypass_csp=True).new_page()
            sign_in(page, served, hostile.operator)
            for name, address in hostile.pages().items():
                answer = page.goto(served + address)
                assert answer is not None
                assert answer.status == 200, f"{name}: {answer.status}"
                page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                found[name] = page.evaluate(FIND_PAYLOAD)
                if "onerror=planted=1>" in page.locator("main").inner_text():
                    shown.add(name)
            page.context.close()

        assert found == dict.fromkeys(hostile.pages(), CLEAN)
        assert set(hostile.pages()) - shown <= WITHOUT_STORED_TEXT

    def test_the_content_security_policy_alone_stops_a_script(address: str, page: Page) -> None:
        """The browser gets a page with an injected script, under the headers of our pages."""
        messages = list[str]()
        page.on("console", lambda message: messages.append(message.text))

        def with_a_hole(route: Route) -> None:
            answer = route.fetch()
            hole = "<script>planted=1</script><img src=x onerror=planted=1><p style='color:red'>"
            route.fulfill(response=answer, body=answer.text().replace("<h1>", hole + "<h1>", 1))

        page.route("**/console/search", with_a_hole)
        page.goto(f"{address}/console/search")
        page.wait_for_load_state("networkidle")
        planted, holes = page.evaluate("typeof planted"), page.locator("img[onerror]").count()
        page.unroute_all()

        assert (planted, holes) == ("undefined", 1)
        assert sum("Content Security Policy" in text for text in messages) >= 3

    def test_every_step_works_by_keyboard(address: str, chrome: Browser, harness: SampleServer) -> None:
        page = chrome.new_page()
        page.goto(f"{address}/console/")
        page.keyboard.type(harness.operator)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{address}/console/")
        page.keyboard.press("Tab")
        first = _focused(page)
        page.keyboard.press("Enter")
        after_skip = page.evaluate("document.activeElement.id")
        _tab_to(page, "Playground", page.reload)
        page.keyboard.press("Enter")
        page.wait_for_url("**/console/playground?**")
        page.focus("body")
        _tab_to(page, "q")
        page.keyboard.type("refunds")
        page.keyboard.press("Enter")
        page.wait_for_url("**q=refunds**")
        _tab_to(page, "policy/eu-refunds")
        page.keyboard.press("Enter")
        page.wait_for_url("**/console/record**")
        _tab_to(page, "Evidence")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        page.keyboard.press("Enter")
        floors = page.get_by_text("F1_Amanah").first.is_visible()
        page.close()

        assert first == "Skip to content"
        assert after_skip == "main"
        assert outline == "solid"
        assert floors

    def test_times_are_those_of_the_reader_and_utc_is_a_tooltip(
        address: str, chrome: Browser, harness: SampleServer
    ) -> None:
        """A day that is chosen is one of the reader's own, too."""
        context = chrome.new_context(timezone_id="Asia/Tokyo")
        page = context.new_page()
        sign_in(page, address, harness.operator)
        page.goto(address + harness.pages()["record"])
        time = page.locator("time").first
        shown, title = time.inner_text(), time.get_attribute("title")
        page.goto(f"{address}/console/known")
        page.fill("#day", "2026-01-01T13:30")
        page.get_by_role("button", name="Show").click()
        page.wait_for_url("**zone=540**")
        known = page.inner_text("main")
        context.close()

        assert (shown, title) == ("1 Jan 2026, 14:00", "2026-01-01 05:00:00 UTC")
        assert "EU refunds take 14 days." in known
        assert "3 memories as of" in known

    def test_every_button_of_a_table_is_inside_it(
        address: str, chrome: Browser, harness: SampleServer
    ) -> None:
        page = chrome.new_page(viewport={"width": 1024, "height": 800})
        sign_in(page, address, harness.operator)
        page.goto(address + harness.pages()["keys"])
        inside = page.evaluate(
            """() => [...document.querySelectorAll('.scroll')].every((table) =>
                [...table.querySelectorAll('summary, a')].every((one) =>
                    one.getBoundingClientRect().right <= table.getBoundingClientRect().right))"""
        )
        page.close()

        assert inside

    def test_every_page_fits_a_phone(address: str, chrome: Browser, harness: SampleServer) -> None:
        context = chrome.new_context(viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
        page = context.new_page()
        sign_in(page, address, harness.operator)
        widths = dict[str, int]()
        for name in (
            "asked",
            "scope",
            "changes",
            "keys",
            "record",
            "proposal",
            "trace",
            "compare",
            "ledger",
            "entry",
            "bench",
            "home",
        ):
            page.goto(address + harness.pages()[name])
            widths[name] = page.evaluate("document.documentElement.scrollWidth")
        hidden = page.get_by_role("link", name="Decide", exact=True).is_visible()
        page.get_by_label("Show menu").check(force=True)
        menu = page.get_by_role("link", name="Decide", exact=True).is_visible()
        context.close()

        assert set(widths.values()) == {360}
        assert (hidden, menu) == (False, True)

    def test_dark_and_light_mode_have_enough_contrast(address: str, page: Page) -> None:
        """Both with enough contrast between the text and what it stands on."""
        found = dict[str, tuple[float, float]]()
        page.goto(f"{address}/console/")
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            ground = _luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            faint = _luminance(page.evaluate("getComputedStyle(document.querySelector('main .faint')).color"))
            found[scheme] = ground, (max(ground, faint) + 0.05) / (min(ground, faint) + 0.05)

        assert found["light"][0] > 0.8
        assert found["dark"][0] < 0.05
        assert min(contrast for _, contrast in found.values()) >= 4.5

    def test_a_link_from_another_site_keeps_the_session(address: str, page: Page) -> None:
        page.goto("about:blank")
        page.set_content(f'<a href="{address}/console/search">look</a>')
        page.get_by_text("look").click()
        page.get_by_role("heading", name="Search", exact=True).wait_for()

    def test_what_happens_elsewhere_appears_by_itself(tmp_path: Path, chrome: Browser) -> None:
        """Without loading the page again; but where somebody is at work, as a notice. Stored text never
        becomes markup.
        """
        hostile = "<img src=x onerror=planted=1>"
        with sample_server(tmp_path, memory_only=True) as harness, serving(harness) as served:
            page = chrome.new_page()
            sign_in(page, served, harness.operator)
            page.goto(f"{served}/console/activity", wait_until="networkidle")
            page.evaluate("still = 1")
            harness.gateway.home.remember(f"The gate is shut.{hostile}", subject="gate")
            page.locator("#live-activity li", has_text=f"The gate is shut.{hostile}").wait_for()
            found, kept = page.evaluate(FIND_PAYLOAD), page.evaluate("still")
            page.goto(f"{served}/console/search", wait_until="networkidle")
            harness.gateway.home.remember("The gate is open.", subject="gate")
            page.get_by_text("1 change since this page was loaded.").wait_for()
            page.get_by_role("link", name="Load again").click()
            page.get_by_text("The gate is open.").first.wait_for()
            page.goto(f"{served}/console/approvals", wait_until="networkidle")
            page.get_by_role("checkbox").first.check()
            harness.gateway.home.remember("The gate is wide.", subject="gate")
            page.get_by_text("1 change since this page was loaded.").wait_for()
            ticked = page.get_by_role("checkbox").first.is_checked()
            page.close()

        assert (found, kept, ticked) == (CLEAN, 1, True)

    def test_pages_work_without_scripts(address: str, chrome: Browser, harness: SampleServer) -> None:
        context = chrome.new_context(java_script_enabled=False)
        page = context.new_page()
        sign_in(page, address, harness.operator)
        page.goto(f"{address}/console/activity")
        activity = page.inner_text("main")
        page.fill("#find", "refunds")
        page.press("#find", "Enter")
        page.wait_for_url("**/console/search**")
        found = page.inner_text("main")
        page.goto(f"{address}/console/approvals?ticked=all")
        page.get_by_role("button", name="Accept as memory").click()
        page.wait_for_url("**/console/sign**")
        sign_page = page.inner_text("main")
        context.close()

        assert "EU refunds take 14 days." in activity
        assert "EU refunds take 30 days" in found
        assert "Accept as memory: 2 proposals, one signature" in sign_page

    def test_a_person_approves_in_the_browser(tmp_path: Path, chrome: Browser) -> None:
        with sample_server(tmp_path, memory_only=True) as harness, serving(harness) as served:
            page = chrome.new_page()
            sign_in(page, served, harness.operator)
            page.goto(served + harness.pages()["proposal"])
            text = page.inner_text("#text-approve")
            page.fill(
                "#signature-approve", sign(openssh.private_key("alice"), text.encode(), "standfast-seal")
            )
            page.get_by_role("button", name="Approve as law").click()
            page.get_by_role("heading", name="Decision").wait_for()
            said = page.inner_text("main")
            page.goto(f"{served}/console/ledger")
            page.get_by_role("button", name="Verify everything").click()
            page.get_by_text("No problem found").wait_for()
            page.close()

        assert "alice@example.com" in said

    def _focused(page: Page) -> str:
        name: str = page.evaluate(
            "(document.activeElement.innerText || document.activeElement.id || '').trim()"
        )
        return name

    def _tab_to(page: Page, name: str, first: object = None) -> None:
        """Press Tab until something of this name has the focus; it must come within reach."""
        if callable(first):
            first()
        for _ in range(60):
            page.keyboard.press("Tab")
            if _focused(page).startswith(name):
                return
        pytest.fail(f"{name} was not reached by the Tab key")

    def _luminance(colour: str) -> float:
        """The relative luminance of a computed colour, as WCAG defines it."""
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
