package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestScript(t *testing.T) {
	t.Setenv("NAME", "value with spaces")
	dir := t.TempDir()
	for _, test := range []struct {
		script, out string
		code        int
	}{
		{"", "", 0},
		{"echo a  b", "a b\n", 0},
		{`echo "a  b" 'c;d && e'`, "a  b c;d && e\n", 0},
		{"echo $NAME; echo ${NAME}x; echo '$NAME'", "value with spaces\nvalue with spacesx\n$NAME\n", 0},
		{"true && echo yes || echo no", "yes\n", 0},
		{"false && echo yes || echo no", "no\n", 0},
		{"false; echo next", "next\n", 0},
		{"echo a; false", "a\n", 1},
		{"nonsense", "", 127},
		{"echo x > " + filepath.Join(dir, "f") + "; echo y >> " + filepath.Join(dir, "f") + "; cat " + filepath.Join(dir, "f"), "x\ny\n", 0},
		{"cat " + filepath.Join(dir, "none"), "", 1},
		{"test -e " + dir + " && echo there", "there\n", 0},
		{"echo 'open", "", 2},
	} {
		var out strings.Builder
		if code := script(test.script, &out); code != test.code || out.String() != test.out {
			t.Errorf("%q: %d %q, want %d %q", test.script, code, out.String(), test.code, test.out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); err != nil {
		t.Error(err)
	}
}
