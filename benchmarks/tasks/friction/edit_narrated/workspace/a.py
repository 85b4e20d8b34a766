colour = "red"
