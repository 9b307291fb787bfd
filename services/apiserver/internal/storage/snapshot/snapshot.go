// Package snapshot serves snapshots of etcd to administrators: the API has no other way to read
// etcd as a whole, and only the apiserver has etcd's address.
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
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// busyRetry is the Retry-After, in seconds, for a client that meets another client's snapshot.
const busyRetry = 10

// Config configures a Server.
type Config struct {
	// Store is the store of the main etcd cluster.
	Store   *store.Store
	Encoder *response.Encoder
	Logger  *slog.Logger
	// Ending is closed when the server shuts down: a snapshot in progress is then cut off.
	Ending <-chan struct{}
}

// Server answers GET snapshot.Path.
type Server struct {
	Config
	// place admits one snapshot at a time: while one is read, etcd cannot free database pages.
	place chan struct{}
}

// New returns a server.
func New(cfg Config) *Server { return &Server{Config: cfg, place: make(chan struct{}, 1)} }

// ServeHTTP streams the snapshot of one etcd cluster while etcd produces it. If the snapshot is cut
// off, the connection ends with an error. A complete snapshot proves itself by the hash at its end.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cluster, err := s.cluster(r.URL.Query().Get(snapshot.Query))
	if err != nil {
		s.Encoder.Error(w, r, err)
		return
	}
	select {
	case s.place <- struct{}{}:
		defer func() { <-s.place }()
	default:
		s.Encoder.Error(w, r, apierrors.NewTooManyRequests("another snapshot is being read from this apiserver", busyRetry))
		return
	}
	began := time.Now()
	content, err := cluster.Snapshot(r.Context())
	if err != nil {
		s.Encoder.Error(w, r, err)
		return
	}
	sent, err := s.send(w, r, cluster, content)
	err = errors.Join(err, content.Close())
	log := s.Logger.With("etcd", name(cluster), "bytes", sent, "took", time.Since(began).Round(time.Millisecond))
	if err != nil {
		log.WarnContext(r.Context(), "sending an etcd snapshot failed", "err", err)
		panic(http.ErrAbortHandler) // The client must not mistake a part for the whole.
	}
	log.InfoContext(r.Context(), "sent an etcd snapshot")
}

// send sends all of content and returns the number of bytes sent.
func (s *Server) send(w http.ResponseWriter, r *http.Request, cluster *store.Store, content *etcd.Snapshot) (int64, error) {
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-s.Ending:
			_ = content.Close() // The read then fails with an error.
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
	// Hide ReadFrom and WriteTo: an http.ResponseWriter may otherwise copy in its own way.
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{content}, make([]byte, 64<<10))
	if err != nil {
		return n, fmt.Errorf("sending a snapshot: %w", err)
	}
	return n, nil
}

// cluster finds an etcd cluster by name. An empty name means the main cluster.
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
