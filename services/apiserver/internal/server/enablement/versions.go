package enablement

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Keys of --runtime-config that stand for many API versions.
const (
	apiAll   = "api/all"
	apiGA    = "api/ga"
	apiBeta  = "api/beta"
	apiAlpha = "api/alpha"
)

// Version is an API version that kube-apiserver knows.
type Version struct {
	schema.GroupVersion
	// GA reports whether it is generally available. Only those versions are served.
	GA bool
}

// Versions returns the API versions that kube-apiserver knows.
func Versions() []Version {
	ga := regexp.MustCompile(`^v\d+$`)
	var versions []Version
	for _, fields := range lines(versionsFile) {
		group, version, ok := strings.Cut(fields[0], "/")
		if !ok {
			group, version = "", fields[0]
		}
		versions = append(versions, Version{GroupVersion: schema.GroupVersion{Group: group, Version: version}, GA: ga.MatchString(version)})
	}
	return versions
}

// CheckVersions returns what is wrong with the values of --runtime-config, by key. Kubernetes' errors have
// Kubernetes' texts.
func CheckVersions(values map[string]string) error {
	if values[apiAll] == "false" && len(values) == 1 {
		return errors.New("invalid runtime-config with only api/all=false")
	}
	enabled := map[schema.GroupVersion]bool{}
	for _, version := range Versions() {
		if version.GA {
			enabled[version.GroupVersion] = true
		}
	}
	for _, key := range []string{apiAll, apiGA, apiBeta, apiAlpha} {
		if err := setMany(enabled, key, values); err != nil {
			return err
		}
	}
	if err := setSingle(enabled, values); err != nil {
		return err
	}
	var disabled []string
	for version, on := range enabled {
		if !on {
			disabled = append(disabled, version.String())
		}
	}
	slices.Sort(disabled)
	if len(disabled) > 0 {
		return fmt.Errorf("runtime-config disables %s: Garboard always serves the generally available API versions", strings.Join(disabled, ", "))
	}
	return nil
}

// setMany applies a key that stands for many versions.
func setMany(enabled map[schema.GroupVersion]bool, key string, values map[string]string) error {
	value, ok := values[key]
	switch {
	case !ok:
		return nil
	case value != "true" && value != "false":
		return fmt.Errorf("invalid value %s=%s", key, value)
	case key == apiAlpha || key == apiBeta:
		if value == "true" {
			return notServed(key)
		}
		return nil
	}
	for version := range enabled {
		enabled[version] = value == "true"
	}
	return nil
}

func notServed(what string) error {
	return fmt.Errorf("runtime-config enables %s: Garboard serves the generally available API versions, no alpha or beta versions", what)
}

// setSingle applies the keys GROUP/VERSION and GROUP/VERSION/RESOURCE.
func setSingle(enabled map[schema.GroupVersion]bool, values map[string]string) error {
	known := Versions()
	var unknown []string
	versions := map[string]schema.GroupVersion{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains([]string{apiAll, apiGA, apiBeta, apiAlpha}, key) {
			continue
		}
		tokens := strings.Split(key, "/")
		if len(tokens) != 2 && len(tokens) != 3 {
			return fmt.Errorf("runtime-config invalid key %s", key)
		}
		version := schema.GroupVersion{Group: tokens[0], Version: tokens[1]}
		versions[key] = version
		if !slices.ContainsFunc(known, func(v Version) bool { return v.Group == version.Group }) {
			unknown = append(unknown, version.String())
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("unknown api groups %s", strings.Join(slices.Compact(unknown), ","))
	}
	// A key of a resource counts more than one of its version, whichever of them sorts first.
	for _, key := range slices.Sorted(maps.Keys(versions)) {
		at := slices.IndexFunc(known, func(v Version) bool { return v.GroupVersion == versions[key] })
		if at < 0 {
			return fmt.Errorf("group version %s that has not been registered", versions[key])
		}
		if err := set(enabled, key, values[key], known[at]); err != nil {
			return err
		}
	}
	return nil
}

// set applies the value of one key, for a version or one of its resources.
func set(enabled map[schema.GroupVersion]bool, key, value string, version Version) error {
	on := value == ""
	if !on {
		var err error
		if on, err = strconv.ParseBool(value); err != nil {
			return fmt.Errorf("invalid value of %s: %s, err: %w", key, value, err)
		}
	}
	resource := strings.TrimPrefix(strings.TrimPrefix(key, version.Group+"/"+version.Version), "/")
	switch {
	case strings.ToLower(resource) != resource:
		return fmt.Errorf("invalid key %s: group/version/resource and resource is always lowercase plural, not %q", key, resource)
	case !version.GA && on:
		return notServed(key)
	case version.GA && resource == "":
		enabled[version.GroupVersion] = on
	case version.GA && !on:
		return fmt.Errorf("runtime-config disables %s: Garboard always serves all resources of the generally available API versions", key)
	}
	return nil
}
