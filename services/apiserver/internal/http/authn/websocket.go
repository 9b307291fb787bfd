package authn

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"
)

// subprotocols is the header in which browsers send a bearer token, since they can set no other
// header on a WebSocket. tokenProtocol begins the subprotocol that is the token, in URL-safe
// base64.
const (
	subprotocols  = "Sec-Websocket-Protocol"
	tokenProtocol = "base64url.bearer.authorization.k8s.io."
)

// webSocket authenticates the bearer token in a WebSocket's subprotocols and removes it from them.
func (a *Authenticator) webSocket(r *http.Request) (Result, bool, error) {
	if !isWebSocket(r.Header) {
		return Result{}, false, nil
	}
	token, rest, err := protocolToken(r.Header[subprotocols])
	if err != nil || token == "" {
		return Result{}, false, err
	}
	result, ok, err := a.token(r.Context(), token, a.cfg.Audiences)
	if ok {
		r.Header.Set(subprotocols, strings.Join(rest, ","))
	}
	return result, ok, err
}

func isWebSocket(header http.Header) bool {
	return strings.EqualFold(header.Get("Upgrade"), "websocket") && strings.Contains(strings.ToLower(header.Get("Connection")), "upgrade")
}

// protocolToken returns the token in the subprotocols, and the subprotocols without it. At least
// one must remain, since the server has to choose one.
func protocolToken(headers []string) (token string, rest []string, err error) {
	seen := false
	for _, header := range headers {
		for protocol := range strings.SplitSeq(header, ",") {
			protocol = strings.TrimSpace(protocol)
			encoded, ok := strings.CutPrefix(protocol, tokenProtocol)
			if !ok {
				rest = append(rest, protocol)
				continue
			}
			if seen {
				return "", nil, errors.New("multiple base64.bearer.authorization tokens specified")
			}
			seen = true
			decoded, err := base64.RawURLEncoding.DecodeString(encoded)
			if err != nil {
				return "", nil, errors.New("invalid base64.bearer.authorization token encoding")
			}
			if !utf8.Valid(decoded) {
				return "", nil, errors.New("invalid base64.bearer.authorization token")
			}
			token = string(decoded)
		}
	}
	if token != "" && len(rest) == 0 {
		return "", nil, errors.New("missing additional subprotocol")
	}
	return token, rest, nil
}
