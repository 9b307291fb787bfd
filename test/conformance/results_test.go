package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestResultsGoOn checks which specs run again: by plane, last result and flag.
func TestResultsGoOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "results.jsonl")
	write(t, path, "one", result{Spec: "a", State: stateFailed, Why: []string{"why"}}, result{Spec: "b", State: statePassed}, result{Spec: "a", State: statePassed})
	write(t, path, "two", result{Spec: "c", State: statePassed}, result{Spec: "b", State: stateFailed})
	chosen := []spec{{"A", "a"}, {"A", "b"}, {"A", "c"}}
	for _, tc := range []struct {
		plane         string
		fresh, failed bool
		want          string
	}{
		{"one", false, false, "c"},
		{"one", false, true, "c"},
		{"two", false, false, "a"},
		{"two", false, true, "ab"},
		{"two", true, false, "abc"},
		{"three", false, false, "abc"},
	} {
		r, err := openResults(path, tc.plane)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range r.open(chosen, tc.fresh, tc.failed) {
			got += s.name
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
		if got != tc.want {
			t.Errorf("plane %s, fresh %v, failed %v: runs %q, want %q", tc.plane, tc.fresh, tc.failed, got, tc.want)
		}
	}
}

// TestResultsAfterKill checks that a half-written line is cut off, and that no other one is.
func TestResultsAfterKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	write(t, path, "one", result{Spec: "a", State: statePassed})
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"plane":"one","sp`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, path, "one", result{Spec: "b", State: statePassed})
	r, err := openResults(path, "one")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.close() }()
	if todo := r.open([]spec{{"A", "a"}, {"A", "b"}, {"A", "c"}}, false, false); len(todo) != 1 || todo[0].name != "c" {
		t.Errorf("runs %v, want c", todo)
	}
}

func TestResultsRefuseTwoRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	first, err := openResults(path, "one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openResults(path, "two"); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("a second run at the same time: %v", err)
	}
	if err := first.close(); err != nil {
		t.Error(err)
	}
	write(t, path, "two", result{Spec: "a", State: statePassed})
}

func TestResultsRefuseGarbage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	write(t, path, "one", result{Spec: "a", State: statePassed})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, "garbage\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openResults(path, "one"); err == nil || !strings.Contains(err.Error(), "the line at byte ") {
		t.Errorf("got %v, want an error with the line's place", err)
	}
}

// write appends results as a run does.
func write(t *testing.T, path, plane string, added ...result) {
	t.Helper()
	r, err := openResults(path, plane)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range added {
		if err := r.add(found); err != nil {
			t.Error(err)
		}
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}
