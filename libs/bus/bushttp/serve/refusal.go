package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/protocol"
)

var errRefusal = errors.New("encoding a refusal")

// refusal is the response to a request that is not passed to the handler.
type refusal struct {
	status  int
	reason  metav1.StatusReason
	message string
}

var (
	badRequest = refusal{http.StatusBadRequest, metav1.StatusReasonBadRequest, "400 Bad Request"}
	tooMany    = refusal{http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "Too many requests, please try again later."}
)

// encode encodes the refusal as one message.
func (r refusal) encode(method string) (protocol.Frame, error) {
	body, err := json.Marshal(&metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Message: r.message, Reason: r.reason, Code: int32(r.status),
	})
	if err != nil {
		return protocol.Frame{}, errors.Join(errRefusal, err)
	}
	header := http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}}
	if r.status == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	if !protocol.HasBody(method, r.status) {
		body = nil
	}
	head, err := protocol.EncodeAnswer(r.status, header)
	if err != nil {
		return protocol.Frame{}, errors.Join(errRefusal, err)
	}
	return protocol.Frame{Kind: protocol.KindAnswer, Flags: protocol.FlagFirst | protocol.FlagLast, Head: head, Body: body}, nil
}

// refuse answers a request that is not passed to the handler. It keeps no state and does not wait:
// if the caller's credit is too small for the response, it gets only an abort.
func (s *Server) refuse(ctx context.Context, m bus.Message, credit uint64, method string, r refusal) {
	s.metrics.requests.WithLabelValues("refused").Inc()
	f, err := r.encode(method)
	if err != nil || uint64(len(f.Body)) > credit {
		f = protocol.Frame{Kind: protocol.KindAbort}
	}
	if err := s.Conn.PublishRequest(ctx, m.Reply, s.address(m.Reply), f.AppendTo(nil)); err != nil {
		s.Logger.Debug("could not refuse a request over NATS", "err", err)
	}
}
