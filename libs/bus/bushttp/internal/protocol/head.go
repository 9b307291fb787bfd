package protocol

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// hopHeaders returns the headers that describe a connection, of which there is none here, or that
// claim where a request came from.
func hopHeaders() []string {
	return []string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Te", "Trailer", "Expect",
		"Upgrade", "X-Forwarded-For", "X-Real-Ip", "Forwarded",
	}
}

// RemoveHopHeaders removes the headers that must not be carried on.
func RemoveHopHeaders(header http.Header) {
	for _, name := range hopHeaders() {
		delete(header, name)
	}
}

// A head is in HTTP/1.1 format: the first line, the header, and an empty line.

// EncodeRequest encodes the head of a request whose body has length bytes; -1 if unknown.
func EncodeRequest(r *http.Request, length int64) ([]byte, error) {
	if r.URL == nil {
		return nil, errors.New("the request has no URL")
	}
	method, host := r.Method, r.Host
	if method == "" {
		method = http.MethodGet
	}
	if host == "" {
		host = r.URL.Host
	}
	uri := r.URL.RequestURI()
	if strings.ContainsAny(method+host+uri, " \r\n\t") || method == http.MethodConnect {
		return nil, fmt.Errorf("the request %q %q to %q cannot be written as HTTP", method, uri, host)
	}
	var b bytes.Buffer
	b.Grow(512)
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, uri, host)
	if length > 0 || length == 0 && method != http.MethodGet && method != http.MethodHead {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", length)
	}
	// Header.Write skips and sanitizes invalid fields.
	exclude := map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true}
	if err := r.Header.WriteSubset(&b, exclude); err != nil {
		return nil, err
	}
	b.WriteString("\r\n")
	if b.Len() > MaxHead {
		return nil, fmt.Errorf("the request's header has %d bytes, more than %d", b.Len(), MaxHead)
	}
	return b.Bytes(), nil
}

// DecodeRequest parses the head of a request. The caller adds the body; ContentLength is the value
// of the header, or -1.
func DecodeRequest(head []byte) (*http.Request, error) {
	r, err := http.ReadRequest(bufio.NewReaderSize(bytes.NewReader(head), min(len(head), 4096)))
	if err != nil {
		return nil, err
	}
	if !r.ProtoAtLeast(1, 1) || r.Method == http.MethodConnect || !strings.HasPrefix(r.RequestURI, "/") || len(r.TransferEncoding) > 0 {
		return nil, errors.New("it is not a request to a server")
	}
	r.Body, r.Trailer, r.Close = http.NoBody, nil, false
	if r.Header.Get("Content-Length") == "" {
		r.ContentLength = -1
	}
	return r, nil
}

// Upgrade returns the protocols to which a message switches its connection, or asks to; empty if it does
// not. Both of its headers must say so.
func Upgrade(header http.Header) string {
	if !httpguts.HeaderValuesContainsToken(header["Connection"], "Upgrade") {
		return ""
	}
	return header.Get("Upgrade")
}

// KeepUpgrade removes the headers that must not be carried on, but for those of an upgrade.
func KeepUpgrade(header http.Header) {
	protocols := Upgrade(header)
	RemoveHopHeaders(header)
	if protocols != "" {
		header.Set("Connection", "Upgrade")
		header.Set("Upgrade", protocols)
	}
}

// EncodeAnswer encodes the head of a response. It removes connection headers from header, but for those of
// an upgrade that takes place.
func EncodeAnswer(status int, header http.Header) ([]byte, error) {
	if status == http.StatusSwitchingProtocols {
		KeepUpgrade(header)
	} else {
		RemoveHopHeaders(header)
	}
	var b bytes.Buffer
	b.Grow(512)
	b.WriteString("HTTP/1.1 ")
	b.WriteString(strconv.Itoa(status))
	b.WriteByte(' ')
	b.WriteString(http.StatusText(status))
	b.WriteString("\r\n")
	if err := header.Write(&b); err != nil {
		return nil, err
	}
	b.WriteString("\r\n")
	if b.Len() > MaxHead {
		return nil, fmt.Errorf("the response's header has %d bytes, more than %d", b.Len(), MaxHead)
	}
	return b.Bytes(), nil
}

// DecodeAnswer parses the head of the response to r. The caller adds the body.
func DecodeAnswer(head []byte, r *http.Request) (*http.Response, error) {
	answer, err := http.ReadResponse(bufio.NewReaderSize(bytes.NewReader(head), min(len(head), 4096)), r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	switched := answer.StatusCode == http.StatusSwitchingProtocols && Upgrade(r.Header) != ""
	if answer.StatusCode < http.StatusOK && !switched {
		return nil, fmt.Errorf("%w: status %d", ErrMalformed, answer.StatusCode)
	}
	answer.Body, answer.Trailer, answer.Close, answer.TransferEncoding = http.NoBody, nil, false, nil
	return answer, nil
}

// HasBody reports whether a response with this status to this method has a body.
func HasBody(method string, status int) bool {
	return status >= http.StatusOK && method != http.MethodHead && status != http.StatusNoContent && status != http.StatusNotModified
}
