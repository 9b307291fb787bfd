package filters

import (
	"net/http"
	"regexp"
	"slices"
)

// Headers for the scripts of other origins (CORS); Kubernetes' values.
const (
	corsMethods = "POST, GET, OPTIONS, PUT, DELETE, PATCH"
	corsHeaders = "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since"
	corsExposed = "Date"
)

// admitOrigin allows the script that sent the request to read the response, if its origin is among
// the allowed ones. It reports whether the request is a browser's preliminary question and is answered
// with that.
func (q *request) admitOrigin() (answered bool) {
	origin := q.r.Header.Get("Origin")
	if origin == "" || !slices.ContainsFunc(q.Origins, func(allowed *regexp.Regexp) bool { return allowed.MatchString(origin) }) {
		return false
	}
	header := q.w.Header()
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Allow-Methods", corsMethods)
	header.Set("Access-Control-Allow-Headers", corsHeaders)
	header.Set("Access-Control-Expose-Headers", corsExposed)
	header.Set("Access-Control-Allow-Credentials", "true")
	if q.r.Method != http.MethodOptions {
		return false
	}
	q.w.WriteHeader(http.StatusNoContent)
	return true
}
