// Package configuration reads the configuration of admission plugins: the file that lists them, of
// kind AdmissionConfiguration, and each plugin's own document.
package configuration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Entry is the configuration of one plugin.
type Entry struct {
	// Name is Kubernetes' name of the plugin.
	Name string `json:"name"`
	// Path is a file with the plugin's document. Document prefers Configuration.
	Path string `json:"path"`
	// Configuration is the document itself.
	Configuration json.RawMessage `json:"configuration"`
}

// file is the content of an AdmissionConfiguration.
type file struct {
	metav1.TypeMeta `json:",inline"`
	Plugins         []Entry `json:"plugins"`
}

// versions are the API versions of AdmissionConfiguration, which mean the same.
func versions() []string { return []string{"apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"} }

// ReadFile reads an AdmissionConfiguration, YAML or JSON. A relative path in it is relative to the
// file's directory. As in Kubernetes, the file may also be the document of one of the two plugins
// whose document has no kind.
func ReadFile(path string) ([]Entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("unable to read admission control configuration from %q [%w]", path, err)
	}
	var found file
	if err := DecodeKind(data, &found, "AdmissionConfiguration", versions()...); err != nil {
		if entries := legacy(data, path); len(entries) > 0 {
			return entries, nil
		}
		return nil, fmt.Errorf("reading the admission configuration %s: %w", path, err)
	}
	for i := range found.Plugins {
		if p := found.Plugins[i].Path; p != "" && !filepath.IsAbs(p) {
			found.Plugins[i].Path = filepath.Join(filepath.Dir(path), p)
		}
	}
	return found.Plugins, nil
}

// legacy returns the entry of a file that is itself a plugin's document.
func legacy(data []byte, path string) []Entry {
	var fields map[string]any
	if yaml.Unmarshal(data, &fields) != nil || fields["kind"] != nil {
		return nil
	}
	if _, ok := fields["podNodeSelectorPluginConfig"]; ok {
		return []Entry{{Name: "PodNodeSelector", Path: path}}
	}
	if _, ok := fields["imagePolicy"]; ok {
		return []Entry{{Name: "ImagePolicyWebhook", Path: path}}
	}
	return nil
}

// Document returns the plugin's document, YAML or JSON; nil if there is none.
func (e Entry) Document() ([]byte, error) {
	switch {
	case len(e.Configuration) > 0 && string(e.Configuration) != "null":
		return e.Configuration, nil
	case e.Path == "":
		return nil, nil
	}
	data, err := os.ReadFile(e.Path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of the admission plugin %s: %w", e.Name, err)
	}
	return data, nil
}

// Decode decodes a document, YAML or JSON, into a struct. Unknown and duplicate fields are errors.
func Decode(data []byte, into any) error {
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return fmt.Errorf("failed decoding: %w", err)
	}
	strict, err := kjson.UnmarshalStrict(converted, into)
	if err = errors.Join(append(strict, err)...); err != nil {
		return fmt.Errorf("failed decoding: %w", err)
	}
	return nil
}

// DecodeKind is Decode of a document that must be of a kind, in one of some API versions.
func DecodeKind(data []byte, into any, kind string, versions ...string) error {
	var is metav1.TypeMeta
	if err := yaml.Unmarshal(data, &is); err != nil {
		return fmt.Errorf("failed decoding: %w", err)
	}
	for _, version := range versions {
		if is.Kind == kind && is.APIVersion == version {
			return Decode(data, into)
		}
	}
	return fmt.Errorf("the document has apiVersion %q and kind %q; known are kind %s and the versions %q", is.APIVersion, is.Kind, kind, versions)
}
