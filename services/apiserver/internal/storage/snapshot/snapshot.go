// Package snapshot gives snapshots of etcd to administrators: the API has no other way to what is
// in etcd as a whole, and nobody but the apiserver has etcd's address.
package snapshot

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/snapshot"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// busyRetry is after how many seconds one comes again who meets another's snapshot.
const busyRetry = 10

// Config is what snapshots are given from.
type Config struct {
	// Store is that of the main etcd cluster.
	Store   *store.Store
	Answers *response.Answerer
	Logger  *slog.Logger
	// Ending is closed when the server ends: what is being read then is cut off.
	Ending <-chan struct{}
}

// Server answers GET snapshot.Path.
type Server struct {
	Config
	// place is taken by the one snapshot that is made at a time: as long as it is read etcd can
	// free no page of its database.
	place chan struct{}
}

// New makes a server.
func New(cfg Config) *Server { return &Server{Config: cfg, place: make(chan struct{}, 1)} }

// ServeHTTP sends the snapshot of one etcd cluster as etcd makes it. An answer that was cut off
// ends with an error of the connection; what is whole says so itself, by the hash at its end.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cluster, err := s.cluster(r.URL.Query().Get(snapshot.Query))
	if err != nil {
		s.Answers.Error(w, r, err)
		return
	}
	select {
	case s.place <- struct{}{}:
		defer func() { <-s.place }()
	default:
		s.Answers.Error(w, r, apierrors.NewTooManyRequests("another snapshot is being read from this apiserver", busyRetry))
		return
	}
	began := time.Now()
	content, err := cluster.Snapshot(r.Context())
	if err != nil {
		s.Answers.Error(w, r, err)
		return
	}
	sent, err := s.send(w, r, cluster, content)
	err = errors.Join(err, content.Close())
	log := s.Logger.With("etcd", name(cluster), "bytes", sent, "took", time.Since(began).Round(time.Millisecond))
	if err != nil {
		log.WarnContext(r.Context(), "A snapshot of etcd was cut off", "err", err)
		panic(http.ErrAbortHandler) // The client must not take a part for the whole.
	}
	log.InfoContext(r.Context(), "Gave a snapshot of etcd")
}

// send sends all of content, and gives how many bytes it sent.
func (s *Server) send(w http.ResponseWriter, r *http.Request, cluster *store.Store, content *store.Snapshot) (int64, error) {
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-s.Ending:
			_ = content.Close() // The reading fails, and says so.
		case <-ended:
		}
	}()
	defer func() { close(ended); <-stopped }()
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set(snapshot.HeaderEtcd, name(cluster))
	header.Set(snapshot.HeaderClusters, strings.Join(s.names(), ","))
	header.Set(snapshot.HeaderVersion, content.Version)
	header.Set(snapshot.HeaderRevision, strconv.FormatInt(content.Revision, 10))
	header.Set(snapshot.HeaderSize, strconv.FormatInt(content.Size, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return 0, nil
	}
	// Not io.Copy's own choice: an http.ResponseWriter may read from a Reader in ways of its own.
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{content}, make([]byte, 64<<10))
	if err != nil {
		return n, fmt.Errorf("sending a snapshot: %w", err)
	}
	return n, nil
}

// cluster finds an etcd cluster by its name; the main one's is empty, too.
func (s *Server) cluster(wanted string) (*store.Store, error) {
	if wanted == "" {
		return s.Store, nil
	}
	for _, cluster := range s.Store.Clusters() {
		if name(cluster) == wanted {
			return cluster, nil
		}
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("there is no etcd %q; there are: %s", wanted, strings.Join(s.names(), ", ")))
}

func (s *Server) names() []string {
	var all []string
	for _, cluster := range s.Store.Clusters() {
		all = append(all, name(cluster))
	}
	return all
}

func name(cluster *store.Store) string {
	if cluster.Cluster() == "" {
		return snapshot.Main
	}
	return cluster.Cluster()
}
