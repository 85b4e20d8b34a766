import unittest


class App(unittest.TestCase):
    def test_one_is_one(self):
        self.assertEqual(1, 1)
