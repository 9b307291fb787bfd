package server

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/containerlog"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// logged returns a Server of a node whose pod web has a container main with a log of some lines.
func logged(t *testing.T, state runtime.ContainerState, lines ...string) (s *Server, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "0.log")
	var content []byte
	for _, line := range lines {
		content = append(content, containerlog.Format(time.Now(), containerlog.Stdout, false, []byte(line))...)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s = node(t, &prepared{})
	s.cfg.State = func(uid string) *podstate.Pod {
		return &podstate.Pod{UID: uid, Containers: []runtime.Container{{ID: "id", Name: "main", PodUID: uid, State: state, LogPath: path}}}
	}
	return s, path
}

// TestLogOfOptions checks that a log is text, of the part that the query selects.
func TestLogOfOptions(t *testing.T) {
	t.Parallel()
	s, _ := logged(t, runtime.Exited, "one", "two", "three")
	for query, want := range map[string]string{
		"":                               "one\ntwo\nthree\n",
		"tailLines=1":                    "three\n",
		"limitBytes=5":                   "one\nt",
		"stream=Stderr":                  "",
		"stream=All":                     "one\ntwo\nthree\n",
		"follow=true":                    "one\ntwo\nthree\n",
		"sinceSeconds=1000":              "one\ntwo\nthree\n",
		"tailLines=0&uid=u1":             "",
		"sinceTime=2126-01-02T00:00:00Z": "",
	} {
		got := ask(t, s, http.MethodGet, "/containerLogs/default/web/main?"+query, "")
		if got.Code != http.StatusOK || got.Body.String() != want || got.Header().Get("Content-Type") != "text/plain" {
			t.Errorf("%s: got %d %q, want %q", query, got.Code, got.Body, want)
		}
	}
}

// TestFollowedLog checks that lines of a running container arrive one by one.
func TestFollowedLog(t *testing.T) {
	t.Parallel()
	s, path := logged(t, runtime.Running, "first")
	front := httptest.NewServer(s)
	defer front.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+"/containerLogs/default/web/main?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := front.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewReader(response.Body)
	for _, line := range []string{"first", "second", "third"} {
		got, err := lines.ReadString('\n')
		if err != nil || got != line+"\n" {
			t.Fatalf("read %q, %v, want %s", got, err, line)
		}
		next := map[string]string{"first": "second", "second": "third"}[line]
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.Write(containerlog.Format(time.Now(), containerlog.Stdout, false, []byte(next)))
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// breaking fails to write after some bytes.
type breaking struct {
	*httptest.ResponseRecorder
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrShortWrite
	}
	return b.ResponseRecorder.Write(p)
}

// TestPartialLog checks that a log that ends early does not look complete.
func TestPartialLog(t *testing.T) {
	t.Parallel()
	s, _ := logged(t, runtime.Exited, strings.Repeat("x", 100<<10))
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("the handler ended with %v", err)
		}
	}()
	s.ServeHTTP(&breaking{httptest.NewRecorder(), 64 << 10},
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/containerLogs/default/web/main", nil))
}
