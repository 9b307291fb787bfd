package store

import "testing"

func TestNormalPrefix(t *testing.T) {
	for prefix, want := range map[string]string{"": "/registry/", "/": "/", "a": "/a/", "/a/b/": "/a/b/", "../x": "/x/"} {
		if got := normalPrefix(prefix); got != want {
			t.Errorf("prefix %q became %q, want %q", prefix, got, want)
		}
	}
}
