package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/garboard/garboard/cmd/garboard/internal/doctor"
	"github.com/garboard/garboard/libs/client"
)

func doctorCommand() *cobra.Command {
	var kubeconfig, output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look at every connection of the plane, and say what to do about what is wrong",
		Long: `Look at every connection of the plane, and say what to do about what is wrong.

It asks one apiserver, which asks etcd, NATS, and over NATS all other processes. The exit code is
0 when all is well, 1 for warnings, 2 for failures. Members of system:masters may do this, and
whoever may get the nonResourceURL /debug/garboard/status and list leases, nodes and
endpointslices.`,
		Example: `  garboard doctor
  garboard doctor -o json --timeout 5s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("--output %q: give json, or nothing for text", output)
			}
			config, err := client.LoadConfig(kubeconfig)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			findings := doctor.Check(doctor.Gather(ctx, config, version))
			cancel()
			if output == "json" {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(findings)
			} else {
				err = findings.Write(cmd.OutOrStdout())
			}
			if err != nil {
				return err
			}
			if code := findings.ExitCode(); code != 0 {
				os.Exit(code) // What is wrong has been said.
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; as kubectl finds it when empty")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json; text when empty")
	cmd.Flags().DurationVar(&timeout, "timeout", 15*time.Second, "how long all questions together may take")
	return cmd
}
