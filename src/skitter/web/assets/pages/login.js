// Login, by user and password.

import { change, forgetAnswers } from "../api.js";
import { problemText } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { t } from "../texts.js";
import { command } from "../widgets.js";

export function login(view, start) {
  const { session } = view;
  view.setTitle(t("login.title"));
  if (!session.login) {
    return replace(view.main, h("section.panel.login", {}, h("h1", { tabindex: "-1" }, t("login.title")), h("p", {}, t("login.no_users")), h("p", {}, t("login.no_users_text")), command("skitter user add NAME --role viewer")));
  }
  const problem = h("p.bad-text", { role: "alert" });
  const user = h("input", { id: "user", name: "user", autocomplete: "username", required: true, spellcheck: "false", autocapitalize: "none" });
  const password = h("input", { id: "password", name: "password", type: "password", autocomplete: "current-password", required: true });
  const button = h("button.primary", { type: "submit" }, t("login.login"));
  const send = async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await change("POST", "/session", {}, { user: user.value, password: password.value });
      forgetAnswers();
      await start();
    } catch (error) {
      problem.textContent = error.status === 429 ? t("login.slowed", { seconds: error.retryAfter }) : error.status === 401 ? t("login.wrong") : problemText(error);
      password.value = "";
      password.focus();
    }
    button.disabled = false;
  };
  replace(view.main, h("section.panel.login", {}, h("h1", { tabindex: "-1" }, t("login.title")),
    h("form", { onsubmit: send }, h("label", { for: "user" }, t("login.user")), user, h("label", { for: "password" }, t("login.password")), password, problem, button)));
  user.focus();
  return undefined;
}
