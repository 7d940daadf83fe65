"""Pitfalls of the agent CLIs, each with the tests that show that beam avoids it.

The tests live beside what they try. This list is checked: each named test is there, and each is named once.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

PITFALLS: dict[str, dict[str, tuple[str, ...]]] = {
    "an exit code of 0 after a failure": {
        "agents/test_headless_decode.py": (
            "test_nothing_at_all_with_exit_code_0_is_no_success",
            "test_opencodes_exit_code_0_on_a_denied_tool_is_denied",
            "test_opencodes_exit_code_0_after_an_error_is_a_failure",
            "test_qwens_api_error_that_says_success_with_exit_code_0_is_a_failure",
            "test_pis_exit_code_0_on_a_failing_api_is_a_failure",
            "test_copilots_result_of_0_without_an_answer_is_no_success",
            "test_aiders_exit_code_0_without_a_line_of_tokens_is_a_failure",
        ),
        "agents/test_vibe.py": ("test_what_went_wrong_is_read_from_stderr_and_the_exit_code_is_not_believed_alone",),
        "agents/test_oneshot.py": ("test_an_exit_code_of_0_alone_completes_nothing",),
        "agents/test_claude_decode.py": ("test_exit_code_0_without_a_result_is_a_crash",),
        "agents/test_codex_decode.py": ("test_exit_code_0_without_the_end_of_the_turn_is_a_failure",),
        "agents/test_gemini_decode.py": (
            "test_the_result_line_tells_the_outcome_and_never_the_exit_code",
            "test_exit_code_0_without_a_result_is_an_interrupted_turn_and_no_success",
        ),
        "real/test_gemini_turns.py": ("test_a_turn_that_runs_out_of_time_is_cancelled_though_gemini_exits_with_0",),
        "conformance/test_cells_failures.py": ("test_api_401",),
    },
    "an error's text in place of the answer": {
        "agents/test_claude_decode.py": ("test_an_api_failures_text_is_the_reason_and_a_notice_and_never_the_reply",),
        "agents/test_headless_recordings.py": ("test_an_errors_text_is_never_a_reply",),
        "agents/test_headless_decode.py": (
            "test_cns_failure_stands_on_stderr_only",
            "test_a_model_that_only_talks_of_an_api_error_is_believed",
        ),
    },
    "an answer that is begun twice, thrown away, or told with those before it": {
        "agents/test_vibe.py": (
            "test_an_answer_that_vibe_threw_away_is_no_part_of_the_reply",
            "test_vibe_is_asked_for_a_stream_since_its_json_would_be_the_whole_conversation",
        ),
        "agents/test_headless_decode.py": (
            "test_aider_that_asks_again_after_half_an_answer_says_so_and_only_the_whole_one_counts",
            "test_an_aider_answer_that_broke_off_in_the_middle_of_a_line_is_a_failure_of_the_network",
            "test_qwens_answer_whose_stream_broke_off_is_a_failure_though_tokens_were_counted",
        ),
        "conformance/test_cells_failures.py": ("test_truncated_stream",),
    },
    "a denied tool that looks like a good turn": {
        "agents/test_codex_decode.py": (
            "test_what_only_the_log_says_was_refused_to_the_model_is_a_denial",
            "test_an_mcp_tool_that_needs_approval_is_a_denial",
        ),
        "agents/test_gemini_decode.py": ("test_a_tool_that_was_not_offered_is_a_denial_unless_everything_was_allowed",),
        "conformance/test_cells_tools.py": ("test_denied_tool",),
    },
    "sessions that no headless turn can go on with": {
        "agents/test_headless_launch.py": ("test_the_face_takes_what_it_claims_and_refuses_other_access",),
    },
    "a new session in silence": {
        "agents/test_oneshot.py": ("test_another_session_than_the_asked_one_is_reported_and_is_not_run_again",),
        "agents/test_codex_decode.py": ("test_a_silently_new_session_is_said_to_be_lost_and_its_id_is_the_new_one",),
        "agents/test_codex_exec.py": (
            "test_a_name_is_no_session_because_an_unknown_one_would_silently_be_a_new_session",
        ),
        "agents/test_gemini_exec.py": ("test_a_word_that_names_whatever_session_is_there_is_refused",),
        "agents/test_gemini_decode.py": ("test_another_session_than_the_asked_one_is_said_to_be_lost",),
        "agents/test_headless_launch.py": (
            "test_copilot_resumes_by_a_flag_that_never_begins_a_new_session",
            "test_only_an_id_of_the_clis_own_kind_is_taken_for_a_session",
            "test_an_aider_session_whose_history_file_is_gone_is_not_begun_anew_in_silence",
        ),
        "turns/test_exec_session_file.py": (
            "test_the_turn_runs_once_in_a_new_session_with_an_id_of_its_own_and_the_loss_is_reported",
        ),
        "agents/test_headless_decode.py": (
            "test_an_aider_session_without_its_history_is_said_to_be_lost_and_is_not_run_again",
            "test_opencodes_session_not_found_is_believed_only_where_nothing_was_said",
        ),
        "conformance/test_cells_conversation.py": (
            "test_resume",
            "test_unknown_id",
        ),
    },
    "a session that is destroyed or poisoned": {
        "real/test_gemini_turns.py": (
            "test_a_session_survives_geminis_cleaning_up_that_destroys_sessions_with_geminis_own_ids",
        ),
        "agents/test_gemini_exec.py": ("test_a_new_session_has_an_id_that_geminis_cleaning_up_leaves_alone",),
        "real/test_headless_turns.py": (
            "test_a_bad_model_poisons_an_opencode_session_and_naming_a_good_one_recovers_it",
        ),
        "agents/test_headless_launch.py": (
            "test_a_kilo_session_which_keeps_its_last_profile_gets_its_usual_one_back_with_full",
        ),
    },
    "figures of the whole session": {
        "agents/test_codex_decode.py": (
            "test_usage_is_cumulative_and_becomes_that_of_the_turn_by_what_was_carried",
            "test_totals_that_became_smaller_say_nothing_of_the_turn",
        ),
        "agents/test_headless_decode.py": (
            "test_qwens_cumulative_figures_of_the_session_are_not_taken_for_the_turns",
            "test_opencodes_figures_are_the_sum_of_its_steps",
        ),
        "conformance/test_cells_conversation.py": ("test_tokens",),
    },
    "figures that are noughts or rounded": {
        "agents/test_gemini_decode.py": ("test_the_noughts_of_a_turn_that_failed_at_once_are_no_figures",),
        "agents/test_headless_decode.py": ("test_aiders_estimated_figures_stay_null",),
        "agents/test_claude_decode.py": ("test_an_interrupted_turns_figures_are_not_known",),
    },
    "item ids that begin anew in each process": {
        "agents/test_codex_decode.py": ("test_item_ids_restart_in_each_process_and_call_ids_do_not",),
        "real/test_codex_turns.py": ("test_call_ids_are_unique_over_turns_though_item_ids_restart",),
    },
    "wrapper processes": {
        "real/test_codex_turns.py": ("test_a_killed_codex_leaves_no_native_process_and_its_session_goes_on",),
        "real/test_gemini_turns.py": ("test_a_killed_gemini_is_one_process_and_its_session_goes_on",),
        "agents/test_gemini_exec.py": ("test_gemini_does_not_start_itself_a_second_time",),
        "conformance/test_cells_stops.py": ("test_killed_cli",),
    },
    "tools in sessions and groups of their own": {
        "process/test_guard.py": ("test_nothing_outlives_the_exit_of_the_agent",),
        "process/test_tree.py": ("test_nothing_outlives_a_killed_holder",),
    },
    "quotes around the prompt, and prompts that are flags, commands or words of the CLI": {
        "agents/test_headless_launch.py": (
            "test_opencode_reads_its_prompt_from_stdin_since_an_argument_would_reach_the_model_in_quotes",
            "test_qwens_slash_commands_are_kept_off_by_a_space",
            "test_aiders_commands_are_kept_off_by_a_space",
            "test_a_single_word_for_cline_gets_a_space_since_it_would_be_a_command",
        ),
        "agents/test_headless_decode.py": ("test_a_prompt_that_qwen_changes_is_said_to_be_changed",),
        "agents/test_codex_exec.py": ("test_a_known_session_is_resumed_with_the_options_before_the_word",),
        "agents/test_claude_exec.py": ("test_the_prompt_goes_to_stdin_as_it_is_but_for_a_space_before_a_slash",),
        "real/test_headless_turns.py": (
            "test_a_prompt_that_is_an_aider_command_is_only_text_to_the_model",
            "test_a_prompt_that_is_a_subcommand_of_cline_reaches_the_model",
        ),
        "conformance/test_cells_prompts.py": (
            "test_prompt_with_a_dash",
            "test_prompt_with_a_slash",
            "test_prompt_with_quotes",
            "test_prompt_of_many_lines",
            "test_prompt_with_mentions",
        ),
    },
    "files: a greedy flag, a comma, a mention that is more": {
        "agents/test_codex_exec.py": (
            "test_images_go_along_and_other_files_by_their_paths",
            "test_an_image_whose_name_codex_would_cut_is_refused",
        ),
        "agents/test_claude_exec.py": ("test_a_file_that_no_mention_can_name_is_refused",),
    },
    "a silent pipe on stdin that is waited for": {
        "process/test_spawn.py": ("test_without_stdin_the_agent_reads_nothing",),
    },
    "lines without an end, and output that is dropped": {
        "process/test_spawn.py": (
            "test_a_line_may_be_very_long",
            "test_an_agent_that_does_not_wait_for_its_reader_loses_output_to_a_pipe_and_nothing_to_a_file",
        ),
        "agents/test_claude_exec.py": ("test_its_stdout_is_no_pipe_for_it_drops_what_a_full_one_does_not_take",),
        "agents/test_headless_launch.py": ("test_opencodes_stdout_is_no_pipe_for_it_ends_before_a_full_one_was_read",),
        "real/test_whole_output.py": (
            "test_four_megabytes_arrive_whole_in_a_file_and_not_through_a_pipe_that_is_read_slowly",
        ),
    },
    "trust that is asked for, or assumed": {
        "real/test_gemini_turns.py": (
            "test_a_folder_that_nobody_trusted_is_said_with_the_next_step_and_runs_once_trusted",
        ),
        "agents/test_gemini_exec.py": (
            "test_a_folder_counts_as_trusted_only_where_a_person_trusted_it_or_gave_full_access",
        ),
        "agents/test_claude_exec.py": (
            "test_access_edit_loads_the_folders_own_settings_only_where_the_folder_is_trusted",
        ),
        "real/test_headless_turns.py": (
            "test_a_folders_configuration_gives_opencode_no_rights_and_starts_no_servers_under_access_read",
        ),
    },
    "tools that run unasked": {
        "agents/test_oneshot.py": ("test_a_cli_that_asks_nobody_wants_an_explicit_full_and_says_how_to_say_so",),
        "agents/test_headless_launch.py": ("test_pi_under_access_read_has_only_tools_that_look",),
        "real/test_headless_turns.py": ("test_a_cli_that_asks_nobody_runs_only_with_an_explicit_full",),
        "real/test_vibe_turns.py": ("test_access_read_writes_nothing_though_vibe_asks_nobody_and_access_full_does",),
        "conformance/test_cells_tools.py": ("test_access_read",),
    },
    "daemons": {
        "real/test_headless_turns.py": ("test_clines_hub_daemon_does_not_survive_the_turn",),
        "real/test_vibe_turns.py": ("test_a_killed_vibe_is_a_crash_and_its_app_server_does_not_survive_it",),
        "agents/test_headless_launch.py": (
            "test_cline_keeps_its_sessions_in_its_own_process_so_that_no_hub_daemon_starts",
        ),
    },
    "retries without an end, for minutes, or in silence": {
        "agents/test_claude_exec.py": ("test_retries_are_capped_at_three_unless_the_settings_say_otherwise",),
        "agents/test_codex_exec.py": ("test_a_refused_connection_is_not_tried_again_for_ever",),
        "agents/test_gemini_decode.py": ("test_the_silent_retries_are_read_from_stderr",),
        "agents/test_headless_launch.py": (
            "test_retries_are_capped_at_three_unless_the_settings_say_otherwise",
            "test_qwen_logs_its_requests_since_it_tries_a_failing_api_for_up_to_an_hour_in_silence",
        ),
        "agents/test_headless_decode.py": (
            "test_the_silent_retries_of_qwen_are_read_from_the_log_of_its_library",
            "test_the_silent_retries_of_opencode_are_read_from_its_log_on_stderr",
        ),
        "real/test_vibe_turns.py": ("test_retries_end_by_beams_own_cap",),
        "turns/test_exec_retries.py": ("test_retries_are_no_sign_of_life",),
        "conformance/test_cells_failures.py": ("test_api_429", "test_refused_connection"),
        "conformance/test_cells_stops.py": ("test_stalled_stream",),
    },
    "events that are missing, doubled or late": {
        "agents/test_codex_decode.py": (
            "test_a_command_may_end_without_having_begun_and_begin_without_ending",
            "test_a_search_with_its_id_twice_is_read_with_the_last_one",
        ),
        "agents/test_claude_decode.py": ("test_a_stop_after_a_good_result_does_not_undo_it",),
        "agents/test_headless_decode.py": ("test_pis_whole_history_in_its_last_line_is_not_kept_in_the_journal",),
    },
    "a schema that nobody keeps to": {
        "agents/test_claude_decode.py": (
            "test_structured_output_is_kept_and_its_absence_fails_a_turn_that_asked_for_it",
        ),
        "agents/test_codex_decode.py": ("test_a_schema_gives_structured_output_or_a_failure",),
    },
}
NAMED = [(file, test) for files in PITFALLS.values() for file, tests in files.items() for test in tests]


@pytest.mark.slow
@pytest.mark.parametrize("pitfall", PITFALLS)
def test_each_test_of_the_list_is_there(pitfall: str) -> None:
    for file, tests in PITFALLS[pitfall].items():
        tree = ast.parse((TESTS / file).read_text())
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        functions |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id.startswith("test_")}
        assert set(tests) <= functions, file


def test_each_is_named_once() -> None:
    assert [test for test, times in Counter(NAMED).items() if times > 1] == []
