package enablement_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/server/enablement"
)

// TestGates: the first line of an error, or none.
func TestGates(t *testing.T) {
	for _, c := range []struct {
		component, pairs string
		want             string
	}{
		{"", "", ""},
		{"", "WatchList=true", ""},
		{"", " WatchList = true ,,GenericWorkload=false", ""},
		{"kube", "WatchList=T,CRDValidationRatcheting=1", ""},
		{"", "AllAlpha=false", ""},
		{"", "WatchList=false,WatchList=true", ""},
		{"", "Nonsense=true", "unrecognized feature gate: Nonsense"},
		{"", "WatchList", "missing bool value for WatchList"},
		{"", "WatchList=maybe", `invalid value of WatchList=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax`},
		{"", "CRDValidationRatcheting=false", "cannot set feature gate CRDValidationRatcheting to false, feature is locked to true"},
		{"", "WatchList=false", "cannot set feature gate WatchList to false: Garboard has the features"},
		{"", "GenericWorkload=true", "cannot set feature gate GenericWorkload to true: Garboard has the features"},
		{"", "AllAlpha=true", "cannot set feature gate AllAlpha to true: Garboard"},
		{"", "AllBeta=true", "cannot set feature gate AllBeta to true: Garboard"},
		{"", "AllBeta=false", "cannot set feature gate AllBeta to false: Garboard"},
		{"wardle", "WatchList=true", "component not registered: wardle"},
	} {
		err := enablement.CheckGates(map[string][]string{c.component: strings.Split(c.pairs, ",")})
		check(t, c.component+":"+c.pairs, err, c.want)
	}
	check(t, "both components", enablement.CheckGates(map[string][]string{"": {"WatchList=true"}, "kube": {"WatchList=true"}}),
		"set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use")
	err := enablement.CheckGates(map[string][]string{"": {"WatchList=false", "GenericWorkload=true"}})
	for _, name := range []string{"WatchList", "GenericWorkload"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}

func check(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

// TestEveryGate: each gate may be set to its default, and to nothing else.
func TestEveryGate(t *testing.T) {
	gates := enablement.Gates()
	if len(gates) < 250 {
		t.Fatalf("there are only %d gates", len(gates))
	}
	for _, gate := range gates {
		for _, value := range []string{"true", "false"} {
			err := enablement.CheckGates(map[string][]string{"": {gate.Name + "=" + value}})
			if accepted := (value == "true") == gate.Default && gate.Name != "AllBeta"; (err == nil) != accepted {
				t.Errorf("%s=%s: %v", gate.Name, value, err)
			} else if err != nil && !strings.Contains(err.Error(), gate.Name) {
				t.Errorf("%s is not named: %v", gate.Name, err)
			}
		}
	}
}

func TestVersions(t *testing.T) {
	const always = "Garboard always serves"
	for config, want := range map[string]string{
		"":                                   "",
		"api/all=true":                       "",
		"api/ga=true":                        "",
		"api/all=false,api/ga=true":          "",
		"api/beta=false,api/alpha=false":     "",
		"apps/v1=true":                       "",
		"apps/v1":                            "",
		"/v1=true":                           "",
		"apps/v1/deployments=true":           "",
		"resource.k8s.io/v1beta1=false":      "",
		"api/ga=true,resource.k8s.io/v1=1":   "",
		"api/all=false":                      "invalid runtime-config with only api/all=false",
		"api/all=yes":                        "invalid value api/all=yes",
		"api/ga=":                            "invalid value api/ga=",
		"v1=true":                            "runtime-config invalid key v1",
		"a/b/c/d=true":                       "runtime-config invalid key a/b/c/d",
		"foo.example/v1=true,api/all=true":   "unknown api groups foo.example/v1",
		"foo/v1=true,bar/v2/things=false":    "unknown api groups bar/v2,foo/v1",
		"apps/v7=true":                       "group version apps/v7 that has not been registered",
		"apps/v1=maybe":                      "invalid value of apps/v1: maybe, err: strconv.ParseBool",
		"apps/v1/Deployments=true":           `invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase plural, not "Deployments"`,
		"api/beta=true":                      "runtime-config enables api/beta: Garboard serves the generally available API versions, no alpha or beta versions",
		"api/alpha=true":                     "runtime-config enables api/alpha: Garboard serves",
		"resource.k8s.io/v1beta1=true":       "runtime-config enables resource.k8s.io/v1beta1: Garboard serves",
		"resource.k8s.io/v1alpha3":           "runtime-config enables resource.k8s.io/v1alpha3: Garboard serves",
		"resource.k8s.io/v1beta1/pods=true":  "runtime-config enables resource.k8s.io/v1beta1/pods: Garboard serves",
		"apps/v1=false":                      "runtime-config disables apps/v1: " + always,
		"/v1=false,batch/v1=false":           "runtime-config disables batch/v1, v1: " + always,
		"api/ga=false":                       "runtime-config disables admission.k8s.io/v1, ",
		"api/all=false,apps/v1=true":         "runtime-config disables admission.k8s.io/v1, ",
		"networking.k8s.io/v1/ingresses=0":   "runtime-config disables networking.k8s.io/v1/ingresses: " + always,
		"api/all=true,apps/v1=false":         "runtime-config disables apps/v1: " + always,
		"api/all=true,resource.k8s.io/v1=no": "invalid value of resource.k8s.io/v1: no",
	} {
		values := map[string]string{}
		for pair := range strings.SplitSeq(config, ",") {
			if key, value, _ := strings.Cut(pair, "="); key != "" {
				values[key] = value
			}
		}
		check(t, config, enablement.CheckVersions(values), want)
	}
}

// TestServed compares the generally available versions with those of the served kinds.
func TestServed(t *testing.T) {
	served := map[string]bool{}
	for _, kind := range scheme.New().Kinds() {
		served[kind.GroupVersion().String()] = true
	}
	var ga int
	for _, version := range enablement.Versions() {
		if !version.GA {
			if served[version.String()] {
				t.Errorf("%s is served, but not generally available", version)
			}
			continue
		}
		ga++
		// Webhooks speak it; Kubernetes registers it and does not serve it either.
		if !served[version.String()] && version.Group != "admission.k8s.io" {
			t.Errorf("%s is not served", version)
		}
	}
	if ga < 20 {
		t.Errorf("there are only %d generally available versions", ga)
	}
}
