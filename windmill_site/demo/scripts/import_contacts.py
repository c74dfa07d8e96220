"""Check contacts before an import. Fails on the first that has no e-mail address."""


def main(contacts: list[dict] = [{"name": "Ada", "email": "ada@example.com"}, {"name": "Bob"}]):
    for number, contact in enumerate(contacts, start=1):
        print(f"checking {contact.get('name', 'somebody')}")
        if "@" not in contact.get("email", ""):
            raise ValueError(f"contact {number} ({contact.get('name')}) has no e-mail address")
    return {"imported": len(contacts)}
