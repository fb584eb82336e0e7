"""The page of an audit: every text is put in its own place."""

from hitnet.audits.page import _filled


def test_a_name_that_looks_like_a_place_of_the_page_stays_a_name():
    page = "<style>/* style */</style><script>/* content */</script><script>/* script */</script>"
    parts = {"/* style */": "p {}", "/* content */": '["/* script */", "/* style */"]', "/* script */": "show()"}
    expected = '<style>p {}</style><script>["/* script */", "/* style */"]</script><script>show()</script>'
    assert _filled(page, parts) == expected
