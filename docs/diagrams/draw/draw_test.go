package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestDrawingsAreCurrent compares the drawings in the tree with what their texts draw.
func TestDrawingsAreCurrent(t *testing.T) {
	drawings, err := drawAll("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range drawings {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what its text draws: run make generate", name)
		}
	}
	files, err := filepath.Glob("../*.svg")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(drawings) {
		t.Errorf("%v are not all drawn from texts", files)
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	text := "title A & B\nmap 30 10\nbox a 1 1 8 5 user | a < b\nbox b 20 1 8 5 data | b | second\narrow a:right -- b:left | says\n"
	if err := os.WriteFile(filepath.Join(dir, "x.txt"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{dir}); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "x.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<title>A &amp; B</title>", "a &lt; b</text>", `class="box data" x="200" y="10" width="80" height="50"`,
		`<path class="line dash" d="M90 35L200 35"/>`, ">says</text>", "prefers-color-scheme:dark",
	} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the drawing lacks %s:\n%s", want, svg)
		}
	}
	decoder := xml.NewDecoder(strings.NewReader(string(svg)))
	for err == nil {
		_, err = decoder.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the drawing is not XML: %v", err)
	}
	for _, args := range [][]string{nil, {"a", "b"}, {t.TempDir()}} {
		if err := run(args); err == nil {
			t.Errorf("run(%q) reports no error", args)
		}
	}
}

func TestSequence(t *testing.T) {
	svg, err := draw(`title T
sequence 10
lane a user | a
lane b service | b
step a - b | one
also b -- a | perhaps
step b | two`)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`">1</text>`, `">2</text>`, `>perhaps</text>`, `class="box part"`, `class="life"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("the drawing lacks %s:\n%s", want, svg)
		}
	}
	if strings.Contains(svg, `">3</text>`) {
		t.Error("what happens only sometimes has a number")
	}
}

func TestRefusedTexts(t *testing.T) {
	const boxes, lane = "title T\nmap 30 20\nbox a 1 1 8 5 user | a\n", "title T\nsequence 10\nlane a user | a\n"
	for _, tt := range []struct{ text, want string }{
		{"", "does not begin with a title"},
		{"map 1 1\n\nbox a", "does not begin with a title"},
		{"title T\nmap 1", "line 2: map: want map WIDTH HEIGHT, or sequence WIDTH"},
		{"title T\nmap x 1", `line 2: map: "x" is not a number`},
		{"title T\n# a comment\nmap 5 5\nline a", "line 4: line: want box or arrow"},
		{boxes + "box b 1 8 8 5 | b", "line 4: box: want ID LEFT TOP WIDTH HEIGHT KIND"},
		{boxes + "box b 1 8 8 5 user", "line 4: box: want ID LEFT TOP WIDTH HEIGHT KIND"},
		{boxes + "box b 1 8 8 -5 user | b", `"-5" is not a number`},
		{boxes + "box b 1 8 8 5 circle | b", `"circle" is none of user, service`},
		{boxes + "box a 1 8 8 5 user | b", "a is placed twice"},
		{boxes + "box b 25 8 8 5 user | b", "b is outside the map"},
		{boxes + "box b 1 8 8 5 user | a very long name", `"a very long name" needs about 122 pixels, and has 68`},
		{boxes + "box b 1 8 8 3 user | a | b | c", "3 lines are too many for a height of 30 pixels"},
		{boxes + "arrow a:left a:right | x", "want ID:SIDE - ID:SIDE"},
		{boxes + "arrow a:left - b:right | x", `no box "b" stands above this line`},
		{boxes + "arrow a:left - a:middle | x", `"middle" is none of left, right, top, bottom`},
		{boxes + "arrow a:left@x - a:right | x", `"x" is not a number`},
		{boxes + "arrow a:left - a:right over 3 | x", "want via N"},
		{lane + "line a", "line 4: line: want lane, step or also"},
		{lane, "the sequence has no step"},
		{lane + "lane b user", "want ID KIND | TEXT"},
		{lane + "lane a user | b", "a is placed twice"},
		{lane + "step a | x\nlane b user | b", "lanes come before steps"},
		{lane + "step b | x", "no such lane"},
		{lane + "step a - b | x", "no such lane"},
		{lane + "step a", "want LANE | TEXT"},
	} {
		if _, err := draw(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestRoute(t *testing.T) {
	side := func(x, y float64) end { return end{point{x, y}, false} }
	edge := func(x, y float64) end { return end{point{x, y}, true} }
	for _, tt := range []struct {
		name     string
		from, to end
		via      float64
		want     []point
	}{
		{"straight", side(0, 5), side(9, 5), -1, []point{{0, 5}, {9, 5}}},
		{"halfway", side(0, 5), side(10, 9), -1, []point{{0, 5}, {5, 5}, {5, 9}, {10, 9}}},
		{"via", side(0, 5), side(10, 9), 7, []point{{0, 5}, {7, 5}, {7, 9}, {10, 9}}},
		{"upright", edge(0, 5), edge(10, 9), -1, []point{{0, 5}, {0, 7}, {10, 7}, {10, 9}}},
		{"from an edge to a side", edge(0, 5), side(10, 9), -1, []point{{0, 5}, {0, 9}, {10, 9}}},
		{"from a side to an edge", side(0, 5), edge(10, 9), -1, []point{{0, 5}, {10, 5}, {10, 9}}},
	} {
		if got := route(tt.from, tt.to, tt.via); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
