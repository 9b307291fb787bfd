package nodeproxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus/bushttp"
)

// sentHeaders returns the headers of a request that reach the node. Who the client is, and how it proves
// that, is not the node's concern.
func sentHeaders() []string {
	return []string{
		"Accept", "Connection", "Origin", "Sec-Websocket-Extensions", "Sec-Websocket-Key", "Sec-Websocket-Protocol",
		"Sec-Websocket-Version", "Upgrade", "User-Agent", "X-Stream-Protocol-Version",
	}
}

// receivedHeaders returns the headers of a response that reach the client. A node may send no others: in
// a browser it could set cookies for the API.
func receivedHeaders() []string {
	return []string{
		"Connection", "Content-Length", "Content-Type", "Date", "Sec-Websocket-Accept", "Sec-Websocket-Extensions",
		"Sec-Websocket-Protocol", "Upgrade", "X-Accepted-Stream-Protocol-Versions", "X-Stream-Protocol-Version",
	}
}

// only removes all other headers.
func only(header http.Header, names []string) {
	for name := range header {
		if !slices.Contains(names, name) {
			delete(header, name)
		}
	}
}

// errRedirect means that a node sent the client elsewhere, which none has a reason to.
var errRedirect = errors.New("it answered with a redirect")

// forward passes a request on to the agent of a node, and its response to the client, upgrades included.
// What is in flight ends when the server shuts down.
func (p Pods) forward(w http.ResponseWriter, r *http.Request, node string, to *url.URL) {
	proxy := &httputil.ReverseProxy{
		Transport: patient{p.To(node)}, FlushInterval: -1,
		Rewrite: func(out *httputil.ProxyRequest) {
			out.Out.URL, out.Out.Host = to, ""
			only(out.Out.Header, sentHeaders())
		},
		ModifyResponse: func(response *http.Response) error {
			if response.StatusCode >= http.StatusMultipleChoices && response.StatusCode < http.StatusBadRequest {
				return errRedirect
			}
			only(response.Header, receivedHeaders())
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { p.Encoder.Error(w, r, unreachable(node, err)) },
	}
	p.Gate.Until(r, func(r *http.Request) { proxy.ServeHTTP(w, r) })
}

// unreachable returns the error for a node that does not answer as it should.
func unreachable(node string, err error) error {
	message := fmt.Sprintf("node %q cannot be reached: %v", node, err)
	code := int32(http.StatusBadGateway)
	if errors.Is(err, bushttp.ErrNoServer) {
		message = fmt.Sprintf("node %q does not answer: its node agent is not connected", node)
		code = http.StatusServiceUnavailable
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonServiceUnavailable, Message: message,
	}}
}
