package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

// maxPost bounds a post, in bytes.
const maxPost = 1 << 10

// posts are lines of a file, the oldest first.
type posts struct {
	mu   sync.Mutex
	file *os.File
}

func open(path string) (*posts, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	return &posts{file: file}, err
}

func (p *posts) Close() error { return p.file.Close() }

func (p *posts) all() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := p.file.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(p.file, 0, info.Size()))
}

func (p *posts) add(post string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprintln(p.file, post); err != nil {
		return err
	}
	return p.file.Sync()
}

// handler serves the posts to those who know the password.
func (p *posts) handler(password string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/posts", func(w http.ResponseWriter, r *http.Request) {
		if _, given, _ := r.BasicAuth(); given != password {
			http.Error(w, "the password is not the store's", http.StatusUnauthorized)
			return
		}
		if r.Method != http.MethodPost {
			lines, err := p.all()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = w.Write(lines)
			return
		}
		post, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPost))
		if err == nil {
			err = p.add(strings.ReplaceAll(string(post), "\n", " "))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// client asks a store.
type client struct{ url, password string }

func (c client) posts(ctx context.Context) ([]string, error) {
	body, err := c.do(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(body)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines, nil
}

func (c client) add(ctx context.Context, post string) error {
	_, err := c.do(ctx, http.MethodPost, []byte(post))
	return err
}

func (c client) do(ctx context.Context, method string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+"/posts", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.SetBasicAuth("blog", c.password)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the store answered %s: %s", answer.Status, bytes.TrimSpace(text))
	}
	return text, err
}
