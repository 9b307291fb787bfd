// Command blog is a small web log in two tiers, as images of tests need one: "store" keeps posts in a file,
// "web" serves them as a page and takes comments, "prepare" waits for the store and writes the first post, and
// "report" adds a post that says how many there are. All but the store find it at $STORE_URL.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, strings.Join(os.Args[1:], " ")); err != nil {
		fmt.Fprintln(os.Stderr, "blog:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, role string) error {
	store := client{url: os.Getenv("STORE_URL"), password: os.Getenv("STORE_PASSWORD")}
	switch role {
	case "store":
		posts, err := open(os.Getenv("STORE_FILE"))
		if err != nil {
			return err
		}
		defer func() { _ = posts.Close() }()
		return listen(ctx, ":5432", posts.handler(os.Getenv("STORE_PASSWORD")))
	case "web":
		return listen(ctx, ":8080", page{title: os.Getenv("BLOG_TITLE"), version: os.Getenv("BLOG_VERSION"), store: store}.handler())
	case "prepare":
		return prepare(ctx, store)
	case "report":
		posts, err := store.posts(ctx)
		if err != nil {
			return err
		}
		return store.add(ctx, fmt.Sprintf("there are %d posts", len(posts)))
	}
	return fmt.Errorf("%q is not store, web, prepare or report", role)
}

// prepare waits for the store, and writes the first post unless it has posts.
func prepare(ctx context.Context, store client) error {
	for {
		posts, err := store.posts(ctx)
		switch {
		case err == nil && len(posts) == 0:
			return store.add(ctx, "hello, world")
		case err == nil:
			return nil
		}
		fmt.Fprintln(os.Stderr, "waiting for the store:", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// listen serves until ctx ends and the requests that have begun are answered.
func listen(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	if err := server.Shutdown(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
