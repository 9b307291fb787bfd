package apiregistration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

const (
	badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	badVersion   = `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`
)

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, ResourceVersion: "1"} }

func TestAPIService(t *testing.T) {
	type service = *apiregistrationv1.APIService
	newService := func() service {
		return &apiregistrationv1.APIService{ObjectMeta: meta("v1.example.com"), Spec: apiregistrationv1.APIServiceSpec{
			Group: "example.com", Version: "v1", GroupPriorityMinimum: 20000, VersionPriority: 1000,
		}}
	}
	remote := func(change func(service)) func(service) {
		return func(s service) {
			s.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "s"}
			defaultAPIService(s)
			change(s)
		}
	}
	for name, tc := range map[string]struct {
		change func(service)
		want   []string
	}{
		"local":          {change: func(service) {}},
		"remote":         {change: remote(func(service) {})},
		"another name":   {change: func(s service) { s.Name = "v2.example.com" }, want: []string{"metadata.name: Invalid value: \"v2.example.com\": must be `spec.version+\".\"+spec.group`: \"v1.example.com\""}},
		"a path":         {change: func(s service) { s.Name = "a/b" }, want: []string{`metadata.name: Invalid value: "a/b": may not contain '/'`}},
		"the core":       {change: func(s service) { s.Name, s.Spec.Group = "v1.", "" }},
		"another core":   {change: func(s service) { s.Name, s.Spec.Group, s.Spec.Version = "v2.", "", "v2" }, want: []string{"spec.group: Required value: only v1 may have an empty group and it better be legacy kube"}},
		"a bad group":    {change: func(s service) { s.Name, s.Spec.Group = "v1.A", "A" }, want: []string{`spec.group: Invalid value: "A": ` + badSubdomain}},
		"a bad version":  {change: func(s service) { s.Name, s.Spec.Version = "1.example.com", "1" }, want: []string{`spec.version: Invalid value: "1": ` + badVersion}},
		"low priorities": {change: func(s service) { s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority = 0, 0 }, want: []string{"spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000", "spec.versionPriority: Invalid value: 0: must be positive and less than 1000"}},
		"high priorities": {change: func(s service) { s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority = 20001, 1001 }, want: []string{
			"spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000", "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
		}},
		"a local one's TLS": {
			change: func(s service) { s.Spec.CABundle, s.Spec.InsecureSkipTLSVerify = []byte("abc"), true },
			want:   []string{`spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle`, "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify"},
		},
		"no service": {
			change: remote(func(s service) { s.Spec.Service = &apiregistrationv1.ServiceReference{Port: new(int32(70000))} }),
			want:   []string{"spec.service.namespace: Required value", "spec.service.name: Required value", "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive"},
		},
		"trust and no trust": {
			change: remote(func(s service) { s.Spec.CABundle, s.Spec.InsecureSkipTLSVerify = []byte("abc"), true }),
			want:   []string{"spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService()
			tc.change(s)
			errortest.Exactly(t, ValidateAPIService(s), tc.want...)
			s.ResourceVersion = ""
			errortest.Exactly(t, validateAPIServiceUpdate(s, s), append([]string{`metadata.resourceVersion: Invalid value: "": must be specified for an update`}, tc.want...)...)
		})
	}
	s := newService()
	s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Status: "True"}, {Status: "Odd"}}
	errortest.Exactly(t, validateAPIServiceStatus(s, s), `status.conditions[1].status: Unsupported value: "Odd": supported values: "True", "False", "Unknown"`)
}
