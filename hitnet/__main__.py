from hitnet.cli import main

main()
