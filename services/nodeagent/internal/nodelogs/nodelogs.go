// Package nodelogs serves the logs of the node's own services, as the kubelet's /logs/ does: files of a folder,
// usually /var/log, and the journal of systemd.
package nodelogs

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
)

// maxEntries bounds how many entries of a folder are listed.
const maxEntries = 10_000

// Config configures a handler. Dir and Logger are required.
type Config struct {
	// Dir is the folder of the logs, and of nothing else: no link out of it is followed.
	Dir string
	// Query allows to ask for the logs of services (the kubelet's enableSystemLogQuery).
	Query bool
	// Journal returns the journal's reader; exec.LookPath of journalctl when nil.
	Journal func() (path string, err error)
	Logger  *slog.Logger
}

type handler struct{ cfg Config }

// New returns the handler of /logs/ and what is below it.
func New(cfg Config) http.Handler {
	if cfg.Journal == nil {
		cfg.Journal = journal
	}
	return http.StripPrefix("/logs/", handler{cfg})
}

// Disabled answers in place of a handler that is turned off.
func Disabled(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "logs endpoint is disabled.", http.StatusMethodNotAllowed)
}

// ServeHTTP serves a file, the list of a folder, or the logs that a query asks for.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	root, err := os.OpenRoot(h.cfg.Dir)
	if err != nil {
		h.cfg.Logger.Debug("opening the folder of logs failed", "err", err)
		http.Error(w, "the node has no folder of logs", http.StatusNotFound)
		return
	}
	defer func() { _ = root.Close() }()
	files := folder{r.Context(), root}
	if h.cfg.Query {
		q, faults := parse(r.URL.Query())
		if len(faults) > 0 {
			http.Error(w, faults.ToAggregate().Error(), http.StatusBadRequest)
			return
		}
		if q != nil {
			h.query(w, r, q, files)
			return
		}
	}
	http.FileServerFS(files).ServeHTTP(w, r)
}

// query serves the logs that a query asks for.
func (h handler) query(w http.ResponseWriter, r *http.Request, q *query, files folder) {
	if r.URL.Path != "/" && r.URL.Path != "" {
		http.Error(w, "path not allowed in query mode", http.StatusNotAcceptable)
		return
	}
	if faults := q.validate(files); len(faults) > 0 {
		http.Error(w, faults.ToAggregate().Error(), http.StatusNotAcceptable)
		return
	}
	if len(q.files) == 1 {
		named := r.Clone(r.Context())
		named.URL.Path = q.files[0]
		http.FileServerFS(files).ServeHTTP(w, named)
		return
	}
	w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
	h.services(r.Context(), w, q, files)
}

// folder is a file system of regular files and folders: opening a pipe would block, and a device act.
type folder struct {
	ctx  context.Context //nolint:containedctx // io/fs has no contexts
	root *os.Root
}

// Open opens a file or a folder.
func (f folder) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	file, err := f.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &bounded{File: file, ctx: f.ctx}, nil
}

// bounded is an open file that is read until its request ends, and whose list of entries is bounded.
type bounded struct {
	*os.File

	ctx context.Context //nolint:containedctx // io/fs has no contexts
}

// Read reads from the file.
func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.File.Read(p)
}

// ReadDir returns entries of the folder: at most maxEntries for a count that is not positive.
func (b *bounded) ReadDir(count int) ([]fs.DirEntry, error) {
	if count > 0 {
		return b.File.ReadDir(count)
	}
	entries, err := b.File.ReadDir(maxEntries)
	if len(entries) > 0 || err == nil {
		return entries, nil
	}
	return nil, ended(err)
}
