package authn

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"
)

// subprotocols is the header in which browsers, which cannot set others on a WebSocket, send a
// bearer token; tokenProtocol begins the subprotocol that is one, in URL-safe base64.
const (
	subprotocols  = "Sec-Websocket-Protocol"
	tokenProtocol = "base64url.bearer.authorization.k8s.io."
)

// webSocket finds the user by the bearer token in a WebSocket's subprotocols, which it removes.
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

// protocolToken finds the token in subprotocols, and those that are left without it: at least
// one, since the server has to choose one.
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
