package nodeproxy

import (
	"context"
	"errors"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bytestream"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/server/drain"
)

// Logs serves the logs of pods.
type Logs struct {
	// Pod reads a pod.
	Pod func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// Conn returns the bus, or nil until it is reached.
	Conn func() *bus.Conn
	// Gate ends followed logs when the server shuts down.
	Gate *drain.Gate
	// Encoder sends errors to clients.
	Encoder *response.Encoder
}

// ServeLogs serves GET pods/NAME/log.
func (l Logs) ServeLogs(w http.ResponseWriter, r *http.Request, namespace, name string) {
	if err := l.serve(w, r, namespace, name); err != nil {
		l.Encoder.Error(w, r, err)
	}
}

func (l Logs) serve(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	opts, err := ParseLogOptions(name, r.URL.Query())
	if err != nil {
		return err
	}
	pod, err := l.Pod(r.Context(), namespace, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var opener Opener = offline{}
	if conn := l.Conn(); conn != nil {
		opener = bytestream.Transport{Conn: conn}
	}
	stream, err := OpenLog(ctx, opener, pod, opts)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	// A followed log ends when the server shuts down.
	watch := l.Gate.Watch()
	defer watch.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-watch.Ended():
			cancel()
		case <-ended:
		}
	}()
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(http.StatusOK)
	copyLog(w, stream)
	return nil
}

// copyLog copies a log and flushes each part at once.
func copyLog(w http.ResponseWriter, from io.Reader) {
	control := http.NewResponseController(w)
	_ = control.Flush() // If the client is gone, the next write fails.
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return
			}
			_ = control.Flush()
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			// A partial log must not look complete to the client.
			panic(http.ErrAbortHandler)
		}
	}
}

// offline stands for the bus until it is reached.
type offline struct{}

func (offline) Open(context.Context, string, []byte) (io.ReadCloser, error) {
	return nil, bus.ErrDisconnected
}
