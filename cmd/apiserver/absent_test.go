package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/services/apiserver"
)

// TestAbsent: a flag for something that is not here fails with an error that names it.
func TestAbsent(t *testing.T) {
	for arg, want := range map[string]string{
		"--authentication-config=a.yaml":                     "structured authentication configuration is not here yet",
		"--authorization-config=a.yaml":                      "structured authorization configuration is not here yet",
		"--encryption-provider-config=a.yaml":                "encryption at rest is not here yet",
		"--encryption-provider-config-automatic-reload=true": "encryption at rest is not here yet",
		"--enable-priority-and-fairness":                     "priority and fairness is not here yet",
		"--enable-priority-and-fairness=true":                "priority and fairness is not here yet",
		"--enable-priority-and-fairness=false":               "",
		"--authentication-config=":                           "",
	} {
		set := pflag.NewFlagSet("apiserver", pflag.ContinueOnError)
		apiFlags(set, &apiserver.Config{})
		err := set.Parse([]string{arg})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", arg, err, want)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if flag := set.Lookup(name); flag == nil || !flag.Hidden {
			t.Errorf("%s is not hidden", name)
		}
	}
}

// TestEnablement: the flags reach the configuration in Kubernetes' notation.
func TestEnablement(t *testing.T) {
	var cfg apiserver.Config
	set := pflag.NewFlagSet("apiserver", pflag.ContinueOnError)
	apiFlags(set, &cfg)
	if err := set.Parse([]string{
		"--feature-gates=WatchList=true,kube:APIServerIdentity=true", "--feature-gates", "wardle:x=false",
		"--runtime-config=api/all=true,apps/v1", "--runtime-config", "batch/v1=false",
	}); err != nil {
		t.Fatal(err)
	}
	gates, versions := cfg.Enablement.FeatureGates, cfg.Enablement.RuntimeConfig
	if len(gates) != 3 || gates[""][0] != "WatchList=true" || gates["kube"][0] != "APIServerIdentity=true" || gates["wardle"][0] != "x=false" {
		t.Errorf("the gates are %v", gates)
	}
	if on, ok := versions["apps/v1"]; len(versions) != 3 || versions["api/all"] != "true" || !ok || on != "" || versions["batch/v1"] != "false" {
		t.Errorf("the versions are %v", versions)
	}
}
