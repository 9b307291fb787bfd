package filters

import (
	"bufio"
	"net"
	"net/http"

	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
)

// recorder remembers the status code of a response and passes it to the audit log.
type recorder struct {
	http.ResponseWriter
	status     int
	record     *audit.Record
	auditStart bool // the start of the response is an event of its own
}

func (r *recorder) begins(status int) {
	if r.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		r.status = status
		r.record.Started(status, r.auditStart)
	}
}

// WriteHeader sends the status code.
func (r *recorder) WriteHeader(status int) {
	r.begins(status)
	r.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (r *recorder) Write(data []byte) (int, error) {
	r.begins(http.StatusOK)
	return r.ResponseWriter.Write(data)
}

// Hijack hands the connection over for another protocol.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.begins(http.StatusSwitchingProtocols)
	return http.NewResponseController(r.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController find what the connection can do.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}
