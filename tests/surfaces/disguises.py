"""Texts that try to pass for others, and texts that only look like it; the terminal and the page must agree on them."""

MASKED = {  # wholly of letters with Latin twins, and what is said of it
    "раура": "раура: every letter is Cyrillic",
    "Pay раура now, привет": "раура: every letter is Cyrillic",
    "перевод на раура.com": "раура in раура.com: every letter is Cyrillic",
    "сс@example.com": "сс in сс@example.com: every letter is Cyrillic",
    "х-ray": "х in х-ray: every letter is Cyrillic",
    "to ραγ": "ραγ: every letter is Greek",
}
FALSE = (  # with one letter or sign that is not what it seems
    "paypal\u2024com", "bank.com\u2215evil", "bank\u3002com", "p\u0251ypal", "b\u0131nance.com", "a\u2010b", "p\u0430y",
)  # fmt: skip
PLAIN = (
    "yarın görüşürüz", "会议：10点。OK", "naïve café", "Привет, мир", "3 − 2", "well-known.example",
    "Встреча: а у нас ресурс, купи сахар и сок", "USB-кабель и web-ресурс для отдела", "почта: сор.рф",
    "Και το νερό και ο ουρανός", "angle α, then β",
)  # fmt: skip
