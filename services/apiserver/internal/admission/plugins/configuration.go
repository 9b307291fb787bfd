package plugins

import (
	"errors"
	"fmt"

	"github.com/garboard/garboard/services/apiserver/internal/admission/configuration"
)

// Configurations reads the file of kind AdmissionConfiguration at a path, and returns the documents
// of the plugins that enable and disable select, by name. It opens no file of another plugin. The
// first of several entries of a plugin counts. An entry of a plugin that is unknown or
// without a configuration is an error.
func Configurations(path string, enable, disable []string) (map[string][]byte, error) {
	if path == "" {
		return nil, nil
	}
	entries, err := configuration.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cfg := Config{Enable: enable, Disable: disable}
	documents, seen := map[string][]byte{}, map[string]bool{}
	var errs []error
	for _, entry := range entries {
		if err := configurable(entry); err != nil {
			errs = append(errs, fmt.Errorf("the plugin %q in the admission configuration %s %w", entry.Name, path, err))
			continue
		}
		if seen[entry.Name] || !cfg.enabled(entry.Name) {
			continue
		}
		seen[entry.Name] = true
		document, err := entry.Document()
		if err != nil {
			errs = append(errs, err)
		} else if document != nil {
			documents[entry.Name] = document
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return documents, nil
}

// configurable returns an error unless the plugin is here and takes the entry. The error continues a
// sentence that names the plugin.
func configurable(entry configuration.Entry) error {
	if err := known(entry.Name); err != nil {
		return err
	}
	for _, e := range list() {
		if e.name != entry.Name || e.flags&configured != 0 || entry.Path == "" && len(entry.Configuration) == 0 {
			continue
		}
		return errors.New("takes no configuration")
	}
	return nil
}

// enabled reports whether a plugin is to run.
func (c Config) enabled(name string) bool {
	for _, e := range list() {
		if e.name == name {
			return c.selects(e)
		}
	}
	return false
}
