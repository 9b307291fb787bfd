package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestBlog follows posts through the web log, and over a restart of its store.
func TestBlog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "posts")
	started := func() (*httptest.Server, *posts) {
		kept, err := open(file)
		if err != nil {
			t.Fatal(err)
		}
		return httptest.NewServer(kept.handler("secret")), kept
	}
	store, kept := started()
	c := client{url: store.URL, password: "secret"}
	if err := prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(page{title: "Log", version: "1", store: c}.handler())
	defer web.Close()
	answer, err := http.PostForm(web.URL+"/comments", url.Values{"text": {"<b>first\nline</b>"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if _, err := (client{url: store.URL, password: "guess"}).posts(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a wrong password: %v", err)
	}
	store.Close()
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	store, kept = started()
	defer func() { _ = kept.Close() }()
	defer store.Close()
	c.url = store.URL
	if err := prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	got, err := c.posts(t.Context())
	if want := "hello, world|<b>first line</b>"; err != nil || strings.Join(got, "|") != want {
		t.Errorf("the posts are %q, %v; want %q", got, err, want)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
