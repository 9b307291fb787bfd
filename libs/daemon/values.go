package daemon

import (
	"regexp"

	"github.com/spf13/pflag"
)

// secretFlag is Kubernetes' annotation of flags whose values are not shown.
const secretFlag = "classified"

// hidden stands for a value that is not shown, as in Kubernetes.
const hidden = "CLASSIFIED"

// inURL matches the user and the password in a URL.
var inURL = regexp.MustCompile(`://[^/@\s]*@`)

// Secret marks a flag whose value Values does not show.
func Secret(flags *pflag.FlagSet, name string) {
	flag := flags.Lookup(name)
	if flag.Annotations == nil {
		flag.Annotations = map[string][]string{}
	}
	flag.Annotations[secretFlag] = []string{"true"}
}

// Values returns the values of all flags by name, for /flagz. It shows no values of secret flags, and no users and
// passwords in URLs.
func Values(flags *pflag.FlagSet) map[string]string {
	values := map[string]string{}
	flags.VisitAll(func(flag *pflag.Flag) {
		value := inURL.ReplaceAllString(flag.Value.String(), "://"+hidden+"@")
		if len(flag.Annotations[secretFlag]) > 0 && value != "" {
			value = hidden
		}
		values[flag.Name] = value
	})
	return values
}
