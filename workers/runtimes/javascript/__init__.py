"""What the runtimes of JavaScript and TypeScript share: how a script is called, where its packages come from."""
