// Package response encodes the apiserver's responses. It negotiates the format with the client,
// writes objects in it, and turns errors into Kubernetes' Status.
package response

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
)

const (
	// gzipFrom is the size in bytes from which responses are compressed, Kubernetes' 128 KB.
	gzipFrom = 128 << 10
	// gzipLevel is the fastest level, as in Kubernetes.
	gzipLevel = gzip.BestSpeed
	// keepBuffer bounds the buffers, in bytes, that are kept for later responses.
	keepBuffer = 1 << 20
)

// Encoder writes responses in the formats that clients accept. Any goroutine may use it.
type Encoder struct {
	infos   []runtime.SerializerInfo
	log     *slog.Logger
	buffers sync.Pool
	pages   sync.Pool
	zippers sync.Pool
	framers sync.Pool // compressors that compress nothing
}

// New returns an Encoder for the table's formats. log receives the failures to encode a response.
func New(table *scheme.Table, log *slog.Logger) *Encoder {
	e := &Encoder{infos: table.Codecs().SupportedMediaTypes(), log: log}
	e.buffers.New = func() any { return new(bytes.Buffer) }
	e.pages.New = func() any {
		page := make([]byte, 0, gzipFrom)
		return &page
	}
	for pool, level := range map[*sync.Pool]int{&e.zippers: gzipLevel, &e.framers: gzip.NoCompression} {
		pool.New = func() any {
			zipper, err := gzip.NewWriterLevel(nil, level)
			if err != nil {
				panic(err) // Only an invalid level fails, and these are constants.
			}
			return zipper
		}
	}
	return e
}

// acceptable returns the media types that a response can have.
func (e *Encoder) acceptable(n negotiation) []string {
	var list []string
	for _, info := range e.infos {
		switch {
		case n.lacks(info, schema.GroupVersionKind{}):
		case !n.stream:
			list = append(list, info.MediaType)
		default:
			list = append(list, info.MediaType+";stream=watch")
		}
	}
	return list
}

// Object writes obj, whose group, version and kind must be set, with the given status code.
func (e *Encoder) Object(w http.ResponseWriter, r *http.Request, code int, format Format, obj runtime.Object) {
	audit.From(r.Context()).Response(obj)
	buffer, ok := e.buffers.Get().(*bytes.Buffer)
	if !ok {
		buffer = new(bytes.Buffer)
	}
	buffer.Reset()
	defer func() {
		if buffer.Cap() <= keepBuffer {
			e.buffers.Put(buffer)
		}
	}()
	if err := format.Serializer().Encode(obj, buffer); err != nil {
		if _, failed := obj.(*metav1.Status); failed {
			e.log.ErrorContext(r.Context(), "encoding an error failed", "err", err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		e.Error(w, r, fmt.Errorf("encoding the response: %w", err))
		return
	}
	e.Bytes(w, r, code, format.Info.MediaType, buffer.Bytes())
}

// Bytes writes an encoded response, compressed if it is large and the client accepts that.
func (e *Encoder) Bytes(w http.ResponseWriter, r *http.Request, code int, contentType string, data []byte) {
	b := e.newBody(w, r, code, contentType, int64(len(data)))
	_, err := b.Write(data)
	e.gone(r, errors.Join(err, b.end()))
}

// gone logs that the client did not read its response; nothing else can be done about it.
func (e *Encoder) gone(r *http.Request, err error) {
	if err != nil {
		e.log.DebugContext(r.Context(), "a client did not read its response", "path", r.URL.Path, "err", err)
	}
}

func acceptsGzip(r *http.Request) bool {
	for alternative := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, params, _ := strings.Cut(alternative, ";")
		if strings.TrimSpace(name) == "gzip" {
			return strings.ReplaceAll(params, " ", "") != "q=0"
		}
	}
	return false
}

// Error writes err as a Status, in the format that the client wants or else in JSON.
func (e *Encoder) Error(w http.ResponseWriter, r *http.Request, err error) {
	status := e.Status(r, err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	format, notAcceptable := e.Negotiate(r)
	if notAcceptable != nil {
		format = Format{Info: e.infos[0], Pretty: pretty(r)}
	}
	e.Object(w, r, int(status.Code), format, status)
}

// Status returns the Status for err. It logs errors that are not API errors, since their cause is
// in the server and not with the client.
func (e *Encoder) Status(r *http.Request, err error) *metav1.Status {
	var api apierrors.APIStatus
	var status metav1.Status
	switch {
	case errors.As(err, &api):
		status = api.Status()
	case errors.Is(err, context.DeadlineExceeded):
		status = apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0).Status()
	case errors.Is(err, context.Canceled):
		status = apierrors.NewServerTimeout(schema.GroupResource{}, r.Method, 1).Status()
	default:
		e.log.ErrorContext(r.Context(), "a request failed", "method", r.Method, "path", r.URL.Path, "err", err)
		status = apierrors.NewInternalError(err).Status()
	}
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	status.Kind, status.APIVersion = "Status", "v1"
	return &status
}
