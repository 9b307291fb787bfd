package config

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/garboard/garboard/libs/pki"
)

// FrontProxy configures which clients may name the user of a request in headers. The lists are
// kube-apiserver's --requestheader flags; package authn says what they mean.
type FrontProxy struct {
	// ClientCAFile is a PEM file of the authorities of front proxies, instead of the one in
	// Serving.CertDir. It is read again when it changes.
	ClientCAFile string
	// AllowedNames are the common names of front proxies; with an empty list, all that the authority
	// has signed are. Without a ClientCAFile, nil means the name in the certificate of the
	// certificate directory, and nil for each list below means Kubernetes' usual headers.
	AllowedNames []string
	// UsernameHeaders and UIDHeaders name the headers of the user's name and UID; the first with a
	// value counts. GroupHeaders name those of the groups, which all count.
	UsernameHeaders, UIDHeaders, GroupHeaders []string
	// ExtraHeaderPrefixes begin the names of the headers of the user's extra fields.
	ExtraHeaderPrefixes []string
}

// frontProxyList is a list of FrontProxy.
type frontProxyList struct {
	flag   string
	list   *[]string
	usual  string // the only element by default
	header bool   // what aggregated API servers expect in it is usual
}

func (f *FrontProxy) lists() []frontProxyList {
	return []frontProxyList{
		{"requestheader-username-headers", &f.UsernameHeaders, "X-Remote-User", true},
		{"requestheader-group-headers", &f.GroupHeaders, "X-Remote-Group", true},
		{"requestheader-extra-headers-prefix", &f.ExtraHeaderPrefixes, "X-Remote-Extra-", true},
		{"requestheader-allowed-names", &f.AllowedNames, pki.FrontProxyUser, false},
		{"requestheader-uid-headers", &f.UIDHeaders, uidHeader, true},
	}
}

const uidHeader = "X-Remote-Uid"

// complete sets defaults and returns everything that is wrong, in kube-apiserver's words. It warns of
// lists without the header that aggregated API servers get.
func (f *FrontProxy) complete(log *slog.Logger) error {
	var errs []error
	for _, one := range f.lists() {
		if slices.ContainsFunc(*one.list, func(name string) bool { return strings.TrimSpace(name) == "" }) {
			errs = append(errs, fmt.Errorf("empty value in %q", one.flag))
		}
		lacks := one.header && len(*one.list) > 0 &&
			!slices.ContainsFunc(*one.list, func(name string) bool { return strings.EqualFold(name, one.usual) })
		switch {
		case lacks && one.usual == uidHeader:
			errs = append(errs, errors.New("--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will not work"))
		case lacks:
			log.Warn("an aggregated API server would not find the user of a request", "err", fmt.Sprintf(
				"--%s is set without specifying the standard %s header - API aggregation will not work", one.flag, one.usual))
		case *one.list == nil && f.ClientCAFile == "":
			*one.list = []string{one.usual}
		}
	}
	return errors.Join(errs...)
}
