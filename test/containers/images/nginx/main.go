// Command nginx is a stand-in for nginx in tests. It serves /usr/share/nginx/html on port 80 (or
// $PORT), and writes nginx's access log to standard output and its error log to standard error. It
// exits with code 0 on SIGTERM, SIGQUIT or SIGINT.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const root = "/usr/share/nginx/html"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-v" {
		fmt.Fprintln(os.Stderr, "nginx version: nginx/"+os.Getenv("NGINX_VERSION"))
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "nginx: [emerg]", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGINT)
	defer stop()
	port := os.Getenv("PORT")
	if port == "" {
		port = "80"
	}
	notice("nginx/" + os.Getenv("NGINX_VERSION"))
	notice("start worker processes")
	server := &http.Server{Addr: ":" + port, Handler: logged(http.HandlerFunc(serve)), ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	notice("exiting")
	if err := server.Close(); err != nil {
		return err
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// notice writes to the error log, as nginx does when it starts and exits.
func notice(text string) {
	fmt.Fprintf(os.Stderr, "%s [notice] %d#%[2]d: %s\n", time.Now().Format("2006/01/02 15:04:05"), os.Getpid(), text)
}

func serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "nginx/"+os.Getenv("NGINX_VERSION"))
	path := filepath.Join(root, filepath.Clean("/"+r.URL.Path))
	if strings.HasSuffix(r.URL.Path, "/") {
		path = filepath.Join(path, "index.html")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s [error] open() %q failed (2: No such file or directory)\n", time.Now().Format("2006/01/02 15:04:05"), path)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintln(w, "<html><head><title>404 Not Found</title></head><body><h1>404 Not Found</h1></body></html>")
		return
	}
	if strings.HasSuffix(path, ".html") {
		w.Header().Set("Content-Type", "text/html")
	}
	_, _ = w.Write(content)
}

// recorder records what the access log contains about a response.
type recorder struct {
	http.ResponseWriter
	status, size int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(data []byte) (int, error) {
	n, err := r.ResponseWriter.Write(data)
	r.size += n
	return n, err
}

func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &recorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r)
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Printf("%s - - [%s] \"%s %s %s\" %d %d \"-\" %q \"-\"\n", client, time.Now().Format("02/Jan/2006:15:04:05 -0700"),
			r.Method, r.RequestURI, r.Proto, answer.status, answer.size, r.UserAgent())
	})
}
