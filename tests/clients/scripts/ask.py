import wmill


def main():
    return wmill.get_resume_urls("bob")
