package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// absentFlags declares, hidden, kube-apiserver's flags for what the apiserver does not have yet, so that
// their errors name what is missing instead of an unknown flag.
func absentFlags(set *pflag.FlagSet) {
	const (
		authentication = "structured authentication configuration is not here yet; use --client-ca-file, --token-auth-file and the flags of service account tokens"
		authorization  = "structured authorization configuration is not here yet; requests are authorized by the Node authorizer and RBAC"
		encryption     = "encryption at rest is not here yet; encrypt etcd's disks"
		fairness       = "priority and fairness is not here yet; use --max-requests-inflight and --max-mutating-requests-inflight"
	)
	for _, flag := range []struct {
		name    string
		missing absent
	}{
		{"authentication-config", authentication},
		{"authorization-config", authorization},
		{"encryption-provider-config", encryption},
		{"encryption-provider-config-automatic-reload", encryption},
	} {
		set.Var(flag.missing, flag.name, "")
		set.Lookup(flag.name).Hidden = true
	}
	set.VarPF(switchedOff(fairness), "enable-priority-and-fairness", "", "").NoOptDefVal = "true"
	set.Lookup("enable-priority-and-fairness").Hidden = true
}

// absent is a flag that cannot be set, and says why.
type absent string

// Set returns the reason, unless the value is empty.
func (a absent) Set(value string) error {
	if value == "" {
		return nil
	}
	return fmt.Errorf("%s", string(a))
}

// String returns the flag's value.
func (a absent) String() string { return "" }

// Type returns pflag's name of the type.
func (a absent) Type() string { return "string" }

// switchedOff is a switch that can only be false, and says why.
type switchedOff string

// Set returns the reason, unless the value is false.
func (s switchedOff) Set(value string) error {
	on, err := strconv.ParseBool(value)
	if err == nil && on {
		err = fmt.Errorf("%s", string(s))
	}
	return err
}

// String returns the flag's value.
func (s switchedOff) String() string { return "false" }

// Type returns pflag's name of the type.
func (s switchedOff) Type() string { return "bool" }
