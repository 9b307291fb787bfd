package authn

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// FrontProxy is which clients are front proxies: programs that have authenticated the user of a
// request themselves, and name it in headers. Kubernetes' API servers are front proxies to each other.
type FrontProxy struct {
	// Authorities sign the certificates that front proxies present.
	Authorities *Authorities
	// Names are the common names of such certificates; any if it is empty.
	Names []string
	// Headers are where the user is named.
	Headers UserHeaders
}

// UserHeaders are the names of the headers in which front proxies name the user.
type UserHeaders struct {
	// Name and UID are headers of which the first with a value counts.
	Name, UID []string
	// Groups are headers whose values all count.
	Groups []string
	// ExtraPrefixes begin the names of headers for fields of User.Extra. The rest of a header's name
	// is the field's key, in which a percent sign escapes characters that headers cannot have.
	ExtraPrefixes []string
}

// stripUsual removes the headers that Kubernetes' API servers use among themselves.
func stripUsual(header http.Header) {
	usual := UserHeaders{
		Name: []string{"X-Remote-User"}, UID: []string{"X-Remote-Uid"},
		Groups: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
	}
	usual.strip(header)
}

// proxied authenticates a request of a front proxy. Without a user's name in the headers it looks at
// no certificate, since most clients with a certificate are no front proxies.
func (a *Authenticator) proxied(r *http.Request) (Result, bool, error) {
	proxy := a.cfg.FrontProxy
	if proxy == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || first(r.Header, proxy.Headers.Name) == "" {
		return Result{}, false, nil
	}
	leaf, others := r.TLS.PeerCertificates[0], r.TLS.PeerCertificates[1:]
	roots := proxy.Authorities.Pool()
	key := keyOf(roots, r.TLS.PeerCertificates)
	if _, ok := a.proxies.find(key, time.Now()); !ok {
		chains, err := chainsOf(roots, leaf, others)
		if err != nil {
			return Result{}, false, fmt.Errorf("verifying the certificate of a front proxy: %w", err)
		}
		a.proxies.keep(key, User{Name: leaf.Subject.CommonName}, chains[0])
	}
	if len(proxy.Names) > 0 && !slices.Contains(proxy.Names, leaf.Subject.CommonName) {
		return Result{}, false, fmt.Errorf("x509: subject with cn=%s is not in the allowed list", leaf.Subject.CommonName)
	}
	return Result{User: proxy.Headers.user(r.Header)}, true, nil
}

// user returns the user that a header names.
func (h *UserHeaders) user(header http.Header) User {
	user := User{Name: first(header, h.Name), UID: first(header, h.UID), Extra: map[string][]string{}}
	for _, name := range h.Groups {
		for _, group := range header.Values(name) {
			if group != "" {
				user.Groups = append(user.Groups, group)
			}
		}
	}
	names := slices.Sorted(maps.Keys(header))
	for _, prefix := range h.ExtraPrefixes {
		for _, name := range names {
			if begins(name, prefix) {
				key := strings.ToLower(name[len(prefix):])
				if plain, err := url.PathUnescape(key); err == nil {
					key = plain
				}
				user.Extra[key] = append(user.Extra[key], header[name]...)
			}
		}
	}
	return user
}

// strip removes the headers.
func (h *UserHeaders) strip(header http.Header) {
	for _, names := range [][]string{h.Name, h.UID, h.Groups} {
		for _, name := range names {
			header.Del(name)
		}
	}
	maps.DeleteFunc(header, func(name string, _ []string) bool {
		return slices.ContainsFunc(h.ExtraPrefixes, func(prefix string) bool { return begins(name, prefix) })
	})
}

// first returns the first value of the first header that has one; "" if none has.
func first(header http.Header, names []string) string {
	for _, name := range names {
		if value := header.Get(name); value != "" {
			return value
		}
	}
	return ""
}

// begins reports whether a header's name begins with a prefix in any case.
func begins(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}
