package nodeapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Logs is the service that answers a LogRequest, in JSON, with a LogHeader and the bytes of the
// log.
const Logs = "logs"

// MaxLogHeader limits the line of a LogHeader, in bytes.
const MaxLogHeader = 64 << 10

// LogRequest asks for the log of one container. The options are those of core/v1 PodLogOptions.
type LogRequest struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// UID is the pod's UID; empty for any pod of that name.
	UID          string       `json:"uid,omitempty"`
	Container    string       `json:"container"`
	Previous     bool         `json:"previous,omitempty"`
	Follow       bool         `json:"follow,omitempty"`
	Timestamps   bool         `json:"timestamps,omitempty"`
	TailLines    *int64       `json:"tailLines,omitempty"`
	LimitBytes   *int64       `json:"limitBytes,omitempty"`
	SinceSeconds *int64       `json:"sinceSeconds,omitempty"`
	SinceTime    *metav1.Time `json:"sinceTime,omitempty"`
	Stream       *string      `json:"stream,omitempty"`
}

// LogHeader is the first line of the response to a LogRequest.
type LogHeader struct {
	// Status is the reason why no log follows; nil if one does.
	Status *metav1.Status `json:"status,omitempty"`
}

// Write writes the header as one line of JSON.
func (h LogHeader) Write(w io.Writer) error {
	line, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encoding the header of a log: %w", err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// ReadLogHeader reads the header; the rest of r is the log. Of a line that does not end it reads at
// most MaxLogHeader bytes, rounded up to a whole buffer of r.
func ReadLogHeader(r *bufio.Reader) (LogHeader, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > MaxLogHeader {
			return LogHeader{}, fmt.Errorf("reading the header of a log: %w", err)
		}
	}
	var header LogHeader
	if err := json.Unmarshal(line, &header); err != nil {
		return LogHeader{}, fmt.Errorf("decoding the header of a log: %w", err)
	}
	return header, nil
}
