package enablement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// kube is the component whose gates these are.
const kube = "kube"

// Gate is one of Kubernetes' feature gates.
type Gate struct {
	Name string
	// Default reports whether the feature is on by default.
	Default bool
	// Stage is ALPHA, BETA, GA or DEPRECATED.
	Stage string
	// Locked reports whether Kubernetes refuses to change the gate.
	Locked bool
}

// Gates returns kube-apiserver's feature gates, sorted by name.
func Gates() []Gate {
	var gates []Gate
	for _, fields := range lines(gatesFile) {
		gates = append(gates, Gate{Name: fields[0], Default: fields[1] == "true", Stage: fields[2], Locked: slices.Contains(fields[3:], "locked")})
	}
	return gates
}

// CheckGates returns what is wrong with the values of --feature-gates: KEY=VALUE pairs by component, where
// no component means kube. Kubernetes' errors have Kubernetes' texts.
func CheckGates(values map[string][]string) error {
	if _, both := values[kube]; both && values[""] != nil {
		return errors.New("set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use")
	}
	known := map[string]Gate{}
	for _, gate := range Gates() {
		known[gate.Name] = gate
	}
	var errs []error
	for _, component := range slices.Sorted(maps.Keys(values)) {
		if component != "" && component != kube {
			errs = append(errs, fmt.Errorf("component not registered: %s", component))
			continue
		}
		set, err := parseGates(values[component])
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(set)) {
			gate, ok := known[name]
			if !ok {
				return fmt.Errorf("unrecognized feature gate: %s", name)
			}
			errs = append(errs, gate.check(set[name]))
		}
	}
	return errors.Join(errs...)
}

// parseGates reads KEY=VALUE pairs; the last value of a key counts.
func parseGates(pairs []string) (map[string]bool, error) {
	set := map[string]bool{}
	for pair := range strings.SplitSeq(strings.Join(pairs, ","), ",") {
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok {
			return nil, fmt.Errorf("missing bool value for %s", name)
		}
		on, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("invalid value of %s=%s, err: %w", name, value, err)
		}
		set[name] = on
	}
	return set, nil
}

// check returns an error unless the gate has the value by default.
func (g Gate) check(value bool) error {
	// AllBeta is off by default, since it sets nothing unless it is given. Both its values change gates.
	allBeta := g.Name == "AllBeta"
	switch {
	case g.Locked && value != g.Default:
		return fmt.Errorf("cannot set feature gate %s to %t, feature is locked to %t", g.Name, value, g.Default)
	case value == g.Default && !allBeta:
		return nil
	case allBeta:
		return fmt.Errorf("cannot set feature gate AllBeta to %t: Garboard has the features of Kubernetes %s as they are by default and no "+
			"switch to change them; leave the gate out", value, release)
	default:
		return fmt.Errorf("cannot set feature gate %s to %t: Garboard has the features of Kubernetes %s as they are by default, this one %t, "+
			"and no switch to change them; leave the gate out", g.Name, value, release, g.Default)
	}
}
