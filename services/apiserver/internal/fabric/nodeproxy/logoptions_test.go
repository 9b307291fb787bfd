package nodeproxy_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/nodeproxy"
)

func TestParseLogOptions(t *testing.T) {
	opts, err := nodeproxy.ParseLogOptions("web", url.Values{
		"container": {"c"}, "follow": {"true"}, "previous": {"1"}, "timestamps": {"true"}, "tailLines": {"0"},
		"limitBytes": {"10"}, "sinceTime": {"2026-01-02T03:04:05Z"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if opts.Container != "c" || !opts.Follow || !opts.Previous || !opts.Timestamps || *opts.TailLines != 0 || *opts.LimitBytes != 10 || opts.SinceTime.Year() != 2026 {
		t.Errorf("read %+v", opts)
	}
	for name, query := range map[string]string{
		"tailLines": "tailLines=-1", "sinceSeconds": "sinceSeconds=0", "limitBytes": "limitBytes=x", "follow": "follow=maybe",
		"sinceTime": "sinceTime=yesterday", "at most one of": "sinceTime=2026-01-02T03:04:05Z&sinceSeconds=1", "stream": "stream=Stderr",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var status apierrors.APIStatus
		if _, err := nodeproxy.ParseLogOptions("web", values); !errors.As(err, &status) || status.Status().Code != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want Invalid that names %s", query, err, name)
		}
	}
}

func FuzzParseLogOptions(f *testing.F) {
	f.Add("follow=true&tailLines=10")
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		opts, err := nodeproxy.ParseLogOptions("web", values)
		if (opts == nil) == (err == nil) {
			t.Fatalf("%q: both or neither of %v and %v", query, opts, err)
		}
	})
}
